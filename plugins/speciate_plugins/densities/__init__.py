"""How likely an event is under each category."""
