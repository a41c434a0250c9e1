"""Three plugins for Speciate, written by somebody who is not Speciate."""
