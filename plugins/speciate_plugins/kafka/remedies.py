"""What to do about outputs that cannot be gone on with, in the same words wherever it is told."""

START_OVER = "start over with new outputs (`speciate topics delete CONFIG`, or --fresh if they are files)"
