"""What differs between two reports: runs only one has, other data, other decisions, numbers that moved."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from speciate.reporting.grouping import in_order
from speciate.reporting.measures import MEASURES
from speciate.reporting.tables import Table
from speciate_schemas.codec import encode
from speciate_schemas.replay import Run

Kind = Literal["only in the first", "only in the second", "other data", "other decisions", "moved"]
COLUMNS = ["benchmark", "order", "method", "seed", "what", "measure", "first", "second"]
ROUNDING = 1e-12
"""Numbers that should be equal may differ by as much, of sums in another order."""
TIMING_SLACK = 0.25
"""Times differ by the hour; a move smaller than this share of the first says nothing."""
HASH_SHOWN = 12


class Change(msgspec.Struct, frozen=True):
    """One thing that differs."""

    benchmark: str
    order: str
    method: str
    seed: int
    kind: Kind
    measure: str = ""
    first: str = ""
    second: str = ""
    timing: bool = False
    """Whether it is a time that moved, which says little."""


def compare(first: Iterable[Run], second: Iterable[Run], timing_slack: float = TIMING_SLACK) -> list[Change]:
    """All that differs, in the fixed order of runs, then what only the second has.

    Runs are the same where benchmark, order, method, seed and options are.
    """
    left, right = ({_configuration(run): run for run in in_order(runs)} for runs in (first, second))
    changes: list[Change] = []
    for key, run in left.items():
        if key in right:
            changes += _changes(run, right[key], timing_slack)
        else:
            changes.append(_change(run, "only in the first"))
    return changes + [_change(run, "only in the second") for key, run in right.items() if key not in left]


def as_table(changes: Iterable[Change]) -> Table:
    """Headings and rows for people."""
    rows = [
        [one.benchmark, one.order, one.method, str(one.seed), one.kind, one.measure, one.first, one.second]
        for one in changes
    ]
    return list(COLUMNS), rows


def _configuration(run: Run) -> bytes:
    info = run.info
    return encode([info.benchmark, info.order, info.burst, info.method, info.seed, info.density, info.policy])


def _changes(first: Run, second: Run, timing_slack: float) -> list[Change]:
    changes: list[Change] = []
    hashes: tuple[tuple[Kind, str, str], ...] = (
        ("other data", first.info.data_sha256, second.info.data_sha256),
        ("other decisions", first.info.decisions_sha256, second.info.decisions_sha256),
    )
    for kind, one, other in hashes:
        if one != other:
            changes.append(_change(first, kind, "", one[:HASH_SHOWN], other[:HASH_SHOWN]))
    for measure in MEASURES:
        a, b = measure.read(first), measure.read(second)
        slack = timing_slack * abs(a or 0.0) if measure.timing else ROUNDING
        if (a is None) != (b is None) or (a is not None and b is not None and abs(a - b) > slack):
            moved = _change(first, "moved", measure.key, measure.text(a), measure.text(b))
            changes.append(msgspec.structs.replace(moved, timing=measure.timing))
    return changes


def _change(run: Run, kind: Kind, measure: str = "", first: str = "", second: str = "") -> Change:
    info = run.info
    return Change(info.benchmark, info.order, info.method, info.seed, kind, measure, first, second)
