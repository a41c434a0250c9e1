"""The figures of a comparison. Each shows one setting, or one benchmark in all its orders; `svg.save` writes it.

They need the extra `report`. Nothing here touches the state of matplotlib outside a figure's own drawing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from speciate.reporting import curves
from speciate.reporting.ellipses import CHECKPOINTS, Category, Points, as_points, outline, predictive, seen_at
from speciate.reporting.grouping import Group, grouped
from speciate.reporting.looks import ACCENT, GRID, INK, MARKERS, MUTED, PALETTE, PAPER, Look, drawing
from speciate.reporting.measures import plain, plural, size
from speciate.reporting.orders import OrderEffect
from speciate.reporting.parts import (
    LABELS,
    LINE,
    dot_labels,
    dots,
    end_labels,
    formatter,
    legend_below,
    line,
    log_ticks,
    one_part,
    parts_in_a_row,
    small_parts,
)
from speciate.reporting.tables import Spread, spread
from speciate.reporting.temporal import panels
from speciate_schemas.replay import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Looks = Mapping[str, Look]
Shown = Iterable[Run] | Iterable[Group]
"""What a figure is of: the runs of one setting, or their groups, whose names are those of the whole comparison."""


def growth(runs: Shown, looks: Looks) -> "Figure":
    """K(t): how many categories there were along the stream, beside the classes it had shown."""
    series = {one.variant.method: curves.growth(one.runs) for one in grouped(runs)}
    series = {method: one for method, one in series.items() if len(one.events)}
    with drawing():
        longest = max((len(looks[method].title) for method in series), default=0)
        figure, axes = one_part(max(3.6, LINE * (len(series) + 1) + 0.9), right=max(LABELS, 0.8 + 0.07 * longest))
        ends: list[tuple[float, str, str, bool]] = []
        for method, one in series.items():
            look = looks[method]
            axes.fill_between(one.events, one.least, one.most, color=look.colour, alpha=0.14, linewidth=0)
            line(axes, one.events, one.mean, look, marker=None)
            ends.append((float(one.mean[-1]), look.title, look.colour, look.strong))
        if series:
            truth = next(iter(series.values()))
            axes.plot(truth.events, truth.truth, color=INK, linewidth=1.6, linestyle=(0, (6, 2)), zorder=6)
            ends.append((float(truth.truth[-1]), "classes shown", INK, True))
            axes.set_xlim(float(truth.events[0]), float(truth.events[-1]))
        axes.set_ylim(bottom=0)
        axes.set(xlabel="events", ylabel="categories")
        axes.xaxis.set_major_formatter(formatter(plain))
        end_labels(axes, ends)
    return figure


def temporal(runs: Shown, looks: Looks) -> "Figure":
    """False births, drift and margin over five parts of the stream; the latter two as shares of the first part."""
    groups = grouped(runs)
    rows = -(-len(groups) // 4)
    shown = panels(groups)
    # A line of its own below the axes says how many methods a part goes without.
    below = LINE * (rows + any(panel.left_out for panel in shown))
    with drawing():
        figure, axes = parts_in_a_row(len(shown), 3.1 + below, bottom=0.55 + below)
        for part, panel in zip(axes, shown, strict=True):
            for method, values in panel.lines.items():
                look = looks[method]
                line(part, (np.arange(len(values)) + 1) / max(len(values), 1), values, look, look.marker)
            without = f"\nwithout {plural(len(panel.left_out), 'method')}" if panel.left_out else ""
            part.set_title(panel.part.title)
            part.set_xlabel(f"share of the stream{without}")
            part.set_xlim(0.12, 1.06)
            part.set_xticks([0.2, 0.4, 0.6, 0.8, 1.0], ["0.2", "0.4", "0.6", "0.8", "1"])
            part.set_ylim(bottom=0)
        legend_below(figure, [looks[one.variant.method] for one in groups])
    return figure


def latency(runs: Shown, looks: Looks) -> "Figure":
    """How long an event took: a histogram a method, on one logarithmic axis."""
    groups = grouped(runs)
    found = {one.variant.method: curves.histogram([run.metrics.timing for run in one.runs]) for one in groups}
    found = {method: one for method, one in found.items() if one.shares.sum() > 0}
    with drawing():
        figure, axes = one_part(0.42 * max(len(found), 3) + 0.9, left=LABELS, right=0.9)
        for place, (method, one) in enumerate(reversed(found.items())):
            _ridge(axes, place, one, looks[method])
        axes.set_yticks(range(len(found)), [looks[method].title for method in reversed(found)])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.set_ylim(-0.15, max(len(found), 1) + 0.05)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="y", visible=False)
        axes.set_xscale("log")
        log_ticks(axes, _milliseconds)
        axes.set_xlabel("time an event")
        for place, method in enumerate(reversed(found)):
            median = spread(
                run.metrics.timing.p50_ms for one in groups if one.variant.method == method for run in one.runs
            )
            axes.annotate(
                f"p50 {_milliseconds(median.mean or 0.0)}",
                (1, place + 0.12),
                xycoords=("axes fraction", "data"),
                xytext=(6, 0),
                textcoords="offset points",
                fontsize=8.5,
                color=MUTED,
            )
    return figure


def memory(runs: Shown, looks: Looks) -> "Figure":
    """Strict accuracy against what the head takes in memory, on a logarithmic axis."""
    found: list[tuple[Look, float, Spread]] = []
    for one in grouped(runs):
        accuracy = spread(run.metrics.strict.all for run in one.runs)
        room = spread(float(run.metrics.head_bytes) for run in one.runs).mean
        if accuracy.mean is not None and room:
            found.append((looks[one.variant.method], room, accuracy))
    with drawing():
        figure, axes = one_part(4.4)
        axes.set_xscale("log")
        for look, room, accuracy in found:
            axes.errorbar(
                room,
                100 * (accuracy.mean or 0.0),
                yerr=100 * (accuracy.std or 0.0) or None,
                color=look.colour,
                marker=look.marker,
                markersize=8.5 if look.strong else 6.5,
                markeredgecolor=PAPER,
                elinewidth=1,
                zorder=look.order,
            )
        axes.margins(x=0.08, y=0.12)
        axes.set(xlabel="memory of the head", ylabel="strict accuracy, All %")
        log_ticks(axes, size)
        dot_labels(figure, axes, found)
    return figure


def order_spread(effect: OrderEffect, looks: Looks) -> "Figure":
    """Each method's accuracy in each order, the best method on top."""
    with drawing():
        figure, axes = one_part(0.3 * len(effect.methods) + 1.25, left=LABELS, right=0.25, top=0.5)
        for place, one in enumerate(reversed(effect.methods)):
            look = looks[one.method]
            scores = [100 * score for score in one.by_order.values()]
            axes.plot(
                [min(scores), max(scores)], [place, place], color=look.colour, linewidth=look.width + 1.5, alpha=0.45
            )
            for marker, score in zip(MARKERS, scores, strict=False):
                axes.plot(score, place, marker=marker, color=look.colour, markersize=7, markeredgecolor=PAPER, zorder=4)
        for marker, order in zip(MARKERS, effect.orders, strict=False):
            axes.plot([], [], marker=marker, color=MUTED, linestyle="none", label=order)
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=len(effect.orders), handletextpad=0.2, borderaxespad=0.2
        )
        axes.set_yticks(range(len(effect.methods)), [looks[one.method].title for one in reversed(effect.methods)])
        axes.tick_params(axis="y", length=0, labelcolor=INK)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(-0.6, len(effect.methods) - 0.4)
        axes.set_xlabel("strict accuracy, All %")
    return figure


def ellipses(categories: Sequence[Category], checkpoints: Sequence[float] = CHECKPOINTS) -> "Figure":
    """How evidence shapes categories: a row each, a column a checkpoint, and the ellipse of what is expected next."""
    with drawing():
        figure, grid = small_parts(len(categories), len(checkpoints))
        for axes_row, category in zip(grid, categories, strict=True):
            points = as_points(category.points)
            behind = points if category.background is None else as_points(category.background)
            outlines = [outline(predictive(points[: seen_at(share, category)], category)) for share in checkpoints]
            low, high = _frame(np.concatenate([points, *outlines]))
            for axes, share, around in zip(axes_row, checkpoints, outlines, strict=True):
                seen = seen_at(share, category)
                dots(axes, behind, GRID, 2.2)
                dots(axes, points[: category.support], PALETTE[4], 3.0)
                dots(axes, points[category.support : seen], PALETTE[0], 3.6)
                axes.plot(*around.T, color=ACCENT, linewidth=1.7, zorder=5)
                axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
                axes.text(0.03, 0.97, f"n = {seen}", transform=axes.transAxes, fontsize=7.5, color=MUTED, va="top")
            axes_row[0].annotate(
                category.title,
                (0, 1),
                xycoords="axes fraction",
                xytext=(0, 5),
                textcoords="offset points",
                fontweight="bold",
                fontsize=9,
            )
        for axes, share in zip(grid[-1] if grid else (), checkpoints, strict=False):
            axes.set_xlabel(f"{100 * share:.0f} %")
    return figure


def _frame(points: Points) -> tuple[Points, Points]:
    """Corners around some points, with a margin; as high as wide, so that a circle is one."""
    low, high = points.min(axis=0), points.max(axis=0)
    centre, half = (low + high) / 2, 0.54 * float((high - low).max())
    return centre - half, centre + half


def _ridge(axes: "Axes", place: int, one: curves.Histogram, look: Look) -> None:
    """A histogram standing on its own line, as high as the next."""
    used = np.flatnonzero(one.shares)
    edges, shares = one.edges[used[0] : used[-1] + 2], one.shares[used[0] : used[-1] + 1]
    # An edge at nothing has no place on a logarithmic axis.
    edges = np.maximum(edges, edges[edges > 0].min() / 2)
    widths = np.diff(np.log(edges))
    heights = shares / np.where(widths > 0, widths, 1)
    tops = place + 0.85 * heights / heights.max()
    axes.fill_between(edges, place, [*tops, tops[-1]], step="post", color=look.colour, alpha=0.3, linewidth=0)
    axes.step(edges, [*tops, tops[-1]], where="post", color=look.colour, linewidth=1.4)
    axes.axhline(place, color=GRID, linewidth=0.8, zorder=1)


def _milliseconds(value: float) -> str:
    return f"{1000 * value:.3g} µs" if value < 1 else f"{value:.3g} ms"
