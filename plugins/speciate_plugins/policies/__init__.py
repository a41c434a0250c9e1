"""From evidence to a decision."""
