"""What a slip of the keyboard was probably meant to be."""

from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to stand in front of what is known, with a space behind it; empty if nothing is near."""
    import difflib  # noqa: PLC0415 - slow to import, and most names are right

    by_folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), by_folded, n=1)
    return f"did you mean {by_folded[near[0]]!r}? " if near else ""
