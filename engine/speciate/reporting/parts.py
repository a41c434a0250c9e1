"""The parts figures are made of: axes with margins in inches, lines, labels that keep apart, ticks that read."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from speciate.reporting.ellipses import Points
from speciate.reporting.layout import place_beside, spread_out
from speciate.reporting.looks import GRID, PAPER, Look
from speciate.reporting.tables import Spread

MOST_DOTS = 400
"""More would hide each other."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.6
"""Inches, of every figure: as wide as a page's text."""
LINE = 0.175
"""Inches a line of labels takes."""
LABELS = 2.0
"""Inches at the right for the labels."""


def one_part(height: float, left: float = 0.62, right: float = LABELS, top: float = 0.15) -> "tuple[Figure, Axes]":
    """A figure of one part, with margins in inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    figure = Figure(figsize=(WIDTH, height))
    bottom = 0.52
    box = (left / WIDTH, bottom / height, (WIDTH - left - right) / WIDTH, (height - bottom - top) / height)
    return figure, figure.add_axes(box)


def parts_in_a_row(parts: int, height: float, bottom: float) -> "tuple[Figure, list[Axes]]":
    """Axes beside each other."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    figure = Figure(figsize=(WIDTH, height))
    axes = figure.subplots(1, parts)
    figure.subplots_adjust(0.05, bottom / height, 0.99, 1 - 0.35 / height, wspace=0.22)
    return figure, list(np.ravel(axes))


def small_parts(rows: int, columns: int) -> "tuple[Figure, list[list[Axes]]]":
    """Rows of small squares without ticks, with room for a title above each row."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # an extra

    side = (WIDTH - 0.1) / max(columns, 1)
    height = max(rows, 1) * (side + 0.24) + 0.3
    figure = Figure(figsize=(WIDTH, height))
    grid: list[list[Axes]] = []
    for row in range(rows):
        bottom = height - (row + 1) * (side + 0.24)
        grid.append([])
        for column in range(columns):
            box = (column * side + 0.05) / WIDTH, bottom / height, (side - 0.07) / WIDTH, (side - 0.07) / height
            axes = figure.add_axes(box)
            axes.set(xticks=[], yticks=[])
            axes.grid(visible=False)
            for spine in axes.spines.values():
                spine.set(visible=True, color=GRID)
            grid[-1].append(axes)
    return figure, grid


def dots(axes: "Axes", points: Points, colour: str, width: float) -> None:
    """Many points as one path: in an SVG a tenth of what as many markers take."""
    from matplotlib.patches import PathPatch  # noqa: PLC0415  # an extra
    from matplotlib.path import Path  # noqa: PLC0415  # an extra

    shown = points[:: max(1, -(-len(points) // MOST_DOTS))]
    # A stroke of almost no length with round ends is a dot.
    strokes = np.repeat(shown, 2, axis=0)
    strokes[1::2, 0] += np.ptp(points) * 2e-3 if len(points) else 0.0
    path = Path(strokes, [Path.MOVETO, Path.LINETO] * len(shown))
    path.should_simplify = False
    patch = PathPatch(path, edgecolor=colour, facecolor="none", linewidth=width, capstyle="round", zorder=2)
    patch.set_snap(False)  # to whole pixels: the stroke would be gone
    axes.add_patch(patch)


def line(axes: "Axes", x: Any, y: Any, look: Look, marker: str | None) -> None:
    """One method's line."""
    axes.plot(
        x,
        y,
        color=look.colour,
        linewidth=look.width,
        linestyle=look.dash,
        marker=marker,
        markersize=5.5 if look.strong else 4.5,
        markeredgecolor=PAPER,
        markeredgewidth=0.6,
        zorder=look.order,
    )


def end_labels(axes: "Axes", ends: Sequence[tuple[float, str, str, bool]]) -> None:
    """Name each line where it ends, moved apart where they would cover each other."""
    low, high = axes.get_ylim()
    inches = axes.get_position().height * axes.get_figure().get_size_inches()[1]  # type: ignore[union-attr]
    apart = LINE * (high - low) / inches
    places = spread_out([end[0] for end in ends], apart, low + apart / 3, high)
    for (value, title, colour, strong), place in zip(ends, places, strict=True):
        axes.annotate(
            "",
            (1, value),
            xycoords=("axes fraction", "data"),
            xytext=(1.035, place),
            textcoords=("axes fraction", "data"),
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.8, "alpha": 0.6, "shrinkA": 0, "shrinkB": 1},
            annotation_clip=False,
        )
        axes.text(
            1.04,
            place,
            f"{title}  {value:.0f}",
            transform=axes.get_yaxis_transform(),
            color=colour,
            va="center",
            fontsize=8.5,
            fontweight="bold" if strong else "normal",
        )


def dot_labels(figure: "Figure", axes: "Axes", found: Sequence[tuple[Look, float, Spread]]) -> None:
    """Name each dot beside it, moved down where names would cover each other."""
    found = sorted(found, key=lambda one: -(one[2].mean or 0.0))
    points = [tuple(axes.transData.transform((room, 100 * (one.mean or 0.0)))) for _, room, one in found]
    scale = figure.dpi / 72
    sizes = [(5.4 * scale * len(look.title), 11.0 * scale) for look, _, _ in found]
    boxes = place_beside(points, sizes, 9 * scale)
    for (look, room, one), (x, y), box in zip(found, points, boxes, strict=True):
        axes.annotate(
            look.title,
            (room, 100 * (one.mean or 0.0)),
            xytext=((box.left - x) / scale, (box.bottom + box.height / 2 - y) / scale),
            textcoords="offset points",
            color=look.colour,
            va="center",
            fontsize=8.5,
            fontweight="bold" if look.strong else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": look.colour,
                "lw": 0.7,
                "alpha": 0.6,
                "shrinkA": 0,
                "shrinkB": 4,
                "relpos": (0, 0.5),
            },
        )


def legend_below(figure: "Figure", looks: Sequence[Look]) -> None:
    """All methods, in rows below the axes."""
    from matplotlib.lines import Line2D  # noqa: PLC0415  # an extra

    handles = [
        Line2D([], [], color=one.colour, linestyle=one.dash, marker=one.marker, linewidth=one.width, label=one.title)
        for one in looks
    ]
    figure.legend(handles=handles, loc="lower center", ncols=min(4, max(len(handles), 1)), handlelength=2.6)


def formatter(write: Callable[[float], str]) -> Any:
    """Ticks written by a function."""
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415  # an extra

    return FuncFormatter(lambda value, _: write(value))


def log_ticks(axes: "Axes", write: Callable[[float], str]) -> None:
    """Ticks at 1, 2 and 5 of each decade, written out."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator  # noqa: PLC0415  # an extra

    low, high = axes.get_xlim()
    many = np.log10(high / low) > 2.5  # noqa: PLR2004  # decades
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0), numticks=20))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(formatter(write))
    axes.set_xlim(low, high)
