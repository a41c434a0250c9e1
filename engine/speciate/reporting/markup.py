"""HTML from values, escaped unless it is HTML already: nothing a run says can become part of the page's own text."""

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Iterable[str]
_ALONE = frozenset({"meta", "br"})


def tag(name: str, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """An element. Attributes that are None or False are left out; `data_value` is written `data-value`."""
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _ALONE:
        return Markup(f"<{opening}>")
    return Markup(f"<{opening}>{join(*content)}</{name}>")


def join(*content: Content) -> Markup:
    """Several pieces as one."""
    return Markup("".join(_text(piece) for piece in content))


def _text(piece: Content) -> str:
    if isinstance(piece, Markup):
        return piece
    return escape(piece) if isinstance(piece, str) else join(*piece)


def _attribute(key: str, value: str | float | bool | None) -> str:  # noqa: FBT001  # bare attributes are true
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    text = value if isinstance(value, str) else repr(value)
    return f" {name}" if value is True else f' {name}="{escape(text)}"'
