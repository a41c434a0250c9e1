"""Replaying recorded streams: benchmarks, one run, many runs."""
