"""`python -m speciate.cli`: the command line without its script."""

from speciate.cli import main

main()
