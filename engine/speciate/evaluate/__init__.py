"""How good the answers are, where the truth is known."""
