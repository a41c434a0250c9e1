"""Where commits and snapshots are kept."""
