"""Ready benchmarks, methods and comparisons, as TOML files: see `speciate.catalogue`."""
