"""Commands that are no part of the engine."""
