"""What a terminal is shown of text from outside, such as a label, an id or the path of a request."""


def shown(text: str) -> str:
    """The text with every character escaped that a terminal would obey instead of showing it."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
