"""Diagnostics over fifths of the stream: what each panel shows, of whom, and who has nothing to show.

Drift and margin are shares of the first fifth, as in the paper. A margin is in units of the method's own score, which
need not be a log density, so only its course can be compared from one method to the next.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from speciate.reporting.curves import Series, over_bins
from speciate.reporting.grouping import Group, Variant
from speciate.reporting.measures import Value
from speciate_schemas.replay import TemporalBin


class Part(NamedTuple):
    """A number followed over the stream."""

    key: str
    title: str
    about: str
    read: Callable[[TemporalBin], Value]
    normalised: bool
    """Whether it is drawn as a share of its first fifth."""


PARTS = (
    Part(
        "false_births",
        "False births, %",
        "births of classes there already, in percent of the events",
        lambda one: None if one.false_birth_rate is None else 100 * one.false_birth_rate,
        normalised=False,
    ),
    Part(
        "drift",
        "Mean drift, first fifth = 1",
        "movement of the chosen category's mean, relative to the first fifth",
        lambda one: one.mean_drift,
        normalised=True,
    ),
    Part(
        "margin",
        "Margin, first fifth = 1",
        "margin over the runner-up, in the method's own units, relative to the first fifth",
        lambda one: one.mean_margin,
        normalised=True,
    ),
)
ABOUT = "Over fifths of the stream, mean over seeds. " + " ".join(
    f"{place}: {part.about}." for place, part in zip(("Left", "Middle", "Right"), PARTS, strict=True)
)


class Panel(NamedTuple):
    """A part with the lines to draw, by method."""

    part: Part
    lines: dict[str, Series]
    firsts: dict[str, float]
    """What there was in the first fifth, as measured, where lines are relative to it."""
    left_out: list[Variant]
    """Methods without a first fifth to be relative to: theirs is nothing, or there is none."""


def panels(groups: Sequence[Group]) -> list[Panel]:
    """Every part for the methods of one setting."""
    return [_panel(part, groups) for part in PARTS]


def _panel(part: Part, groups: Iterable[Group]) -> Panel:
    panel = Panel(part, {}, {}, [])
    for one in groups:
        values = over_bins(one.runs, part.read, normalised=part.normalised)
        if part.normalised:
            if not np.isfinite(values).any():
                panel.left_out.append(one.variant)
                continue
            panel.firsts[one.variant.method] = float(over_bins(one.runs, part.read)[0])
        panel.lines[one.variant.method] = values
    return panel
