"""Speciate: for every event of a stream, live, a known category or the birth of a new one."""
