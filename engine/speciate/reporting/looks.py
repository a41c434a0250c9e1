"""How figures look: colours that read on white and on black, one a method throughout a comparison.

Ink and grid are drawn in the colours of a light page. In an SVG they become variables, which a dark page sets.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from speciate.errors import OperatorError
from speciate.reporting.findings import paper
from speciate.reporting.grouping import Variant

INK, MUTED, GRID, PAPER = "#1b1f24", "#5f6873", "#dde1e6", "#fefefe"
ACCENT = "#d4490c"
PALETTE = (
    "#2f7fd0",
    "#2b9348",
    "#9a5fd0",
    "#c23a78",
    "#148a92",
    "#a3790e",
    "#6f7f2a",
    "#6a6fe0",
    "#a8644a",
    "#7d828c",
)
DASHES: tuple[Any, ...] = ("solid", (0, (4, 1.6)), (0, (1.2, 1.4)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", ">")
FONT = "DejaVu Sans"
"""Measured by while drawing: it comes with matplotlib, and is wider than what a browser puts in its place."""

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": [FONT],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a title is a dollar
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "savefig.facecolor": "none",
}


class Look(NamedTuple):
    """How one method is drawn, and what it is called."""

    title: str
    colour: str
    dash: Any
    marker: str
    strong: bool

    @property
    def width(self) -> float:
        """Of its lines."""
        return 2.6 if self.strong else 1.5

    @property
    def order(self) -> int:
        """In which it is drawn: what matters last, on top."""
        return 5 if self.strong else 3


def looks(methods: Iterable[Variant]) -> dict[str, Look]:
    """A look for each method. They go by the names in sorted order, so that two figures of one comparison agree."""
    found: dict[str, Look] = {}
    others = 0
    for method, title in sorted(set(methods)):
        if method == paper().subject:
            found[method] = Look(title, ACCENT, DASHES[0], MARKERS[0], strong=True)
            continue
        place, turn = others % len(PALETTE), others // len(PALETTE)
        marker = MARKERS[1 + others % (len(MARKERS) - 1)]
        found[method] = Look(title, PALETTE[place], DASHES[turn % len(DASHES)], marker, strong=False)
        others += 1
    return found


def drawing(**more: Any) -> AbstractContextManager[None]:
    """The settings every figure is drawn and saved with."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise OperatorError(
            "figures need matplotlib, which is not installed: pip install 'speciate[report]'"
        ) from error
    context: AbstractContextManager[None] = mpl.rc_context(_SETTINGS | more)
    return context
