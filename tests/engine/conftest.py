"""Makes what the engine's tests share importable from the folders below."""
