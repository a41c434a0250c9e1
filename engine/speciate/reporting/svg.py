"""Figures as files and as parts of a page: SVG with text as text, colours a dark page can change, and PNG."""

import hashlib
import io
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from speciate.errors import ConfigError, OutputError
from speciate.reporting.looks import FONT, GRID, INK, MUTED, PAPER, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG_DPI = 160
VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"}
DARK = {"ink": "#e8eaed", "muted": "#9aa3ad", "grid": "#30363d", "paper": "#14171b"}
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
LINES = "svg *{stroke-linejoin:round;stroke-linecap:butt}\n"
"""What each figure says of its own lines."""
_STYLE = re.compile(r' style="([^"]*)"')
_PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_LONG = re.compile(r"(\.\d\d)\d+")
"""Hundredths of a pixel are not seen, and half of the bytes."""
_NUMBERED = re.compile(r' id="[\w.]+_\d{1,4}"')
"""Ids of groups, which nothing refers to. Those of clips and markers end in ten digits of a hash."""


def save(figure: "Figure", path: Path) -> None:
    """Write a figure, as its suffix says: .svg follows the reader's light or dark, .png is on white."""
    if path.suffix == ".svg":
        content = standalone(figure).encode()
    elif path.suffix == ".png":
        content = _printed(figure, "png", dpi=PNG_DPI, facecolor="white")
    else:
        raise ConfigError(f"a figure cannot be written as {path.name!r}: name it .svg or .png")
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def standalone(figure: "Figure") -> str:
    """An SVG file of its own."""
    text = _printed(figure, "svg").decode()
    head, opening, rest = text.partition("<svg ")
    attributes, end, body = rest.partition(">")
    light = "".join(f"--{name}:{colour};" for colour, name in VARIABLES.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in DARK.items())
    style = f"<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return (
        head
        + opening
        + attributes
        + end
        + style
        + ground
        + _STYLE.sub(lambda match: f' style="{_variables(match[1])}"', body)
    )


class Sheet:
    """Styles of many figures as classes of one stylesheet: a page that allows no style attributes can hold them."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}

    def inline(self, figure: "Figure", name: str, label: str) -> str:
        """A figure as an element of a page; the name keeps its ids apart from those of others."""
        text = _printed(figure, "svg").decode()
        text = text[text.index("<svg ") :]
        text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
        opening, _, body = text.partition(">")
        box = re.search(r'viewBox="([^"]*)"', opening)
        prefix = "f" + hashlib.sha256(name.encode()).hexdigest()[:10]
        body = _NUMBERED.sub("", body)
        body = body.replace("xlink:href=", "href=")
        body = re.sub(r'((?: id=")|url\(#|href="#)', rf"\g<1>{prefix}-", body)
        body = _STYLE.sub(self._as_class, _PLACES.sub(lambda match: _LONG.sub(r"\1", match[0]), body))
        body = re.sub(r">\s+<", "><", body)
        return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{escape(label)}">{body.strip()}'

    def _as_class(self, match: "re.Match[str]") -> str:
        name = self._classes.setdefault(_variables(match[1].strip()), f"s{len(self._classes)}")
        return f' class="{name}"'

    def css(self) -> str:
        """The stylesheet."""
        return LINES + "".join(f".{name}{{{style}}}\n" for style, name in self._classes.items())


def _variables(text: str) -> str:
    """A style with what a dark page changes as variables."""
    for colour, name in VARIABLES.items():
        text = text.replace(colour, f"var(--{name})")
    return re.sub(rf"'{FONT}'[^;\"]*", FONTS, text)


def _printed(figure: "Figure", form: str, dpi: int = 72, facecolor: str = "none") -> bytes:
    """A figure in some format; the same figure is the same bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # an extra

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    with drawing(**{"svg.hashsalt": "speciate"}):
        metadata = {"Date": None} if form == "svg" else {}
        figure.savefig(buffer, format=form, dpi=dpi, facecolor=facecolor, metadata=metadata)
    return buffer.getvalue()
