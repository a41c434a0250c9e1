"""The timeline of a set of categories, for people."""

import math

import numpy as np

from speciate.page.listing import Listing
from speciate.pipeline import Inside
from speciate.timeline import BIRTHS, BUCKETS, EVENTS, MARGINS, PARTS, SIZE, quantiles
from speciate_schemas import TimelineState
from speciate_schemas.page import BirthMark, TimelineView

MOST_MARKS = 200
LEVELS = (0.1, 0.5, 0.9)


def parts_so_far(sequence: int, width: int) -> int:
    """Parts of a timeline that have begun; inputs that were rejected may lie behind the last of them."""
    return min(PARTS, -(-sequence // width))


def copy_timeline(inside: Inside) -> tuple[TimelineState, int]:
    """On the head's thread."""
    return inside.chronicle.timeline.state(), inside.sequence


def timeline_view(state: TimelineState, sequence: int, listing: Listing) -> TimelineView:
    """All parts that have begun."""
    parts = parts_so_far(sequence, state.width)
    there = state.parts.numpy()
    counts = np.zeros((PARTS, MARGINS + BUCKETS), np.int64)
    counts[:, SIZE] = -1
    counts[there] = state.counts.numpy()
    times = np.full(PARTS, np.nan)
    times[there] = state.times.numpy()
    margins = [quantiles(row[MARGINS:], LEVELS) for row in counts[:parts]]
    known = sum(row.known for row in listing.rows.values())
    return TimelineView(
        width=state.width,
        sequence=sequence,
        events=counts[:parts, EVENTS].tolist(),
        births=counts[:parts, BIRTHS].tolist(),
        categories=_carried(counts[:parts, SIZE].tolist(), known),
        margin_low=[low for low, _, _ in margins],
        margin_middle=[middle for _, middle, _ in margins],
        margin_high=[high for _, _, high in margins],
        times=[time if math.isfinite(time) else None for time in times[:parts].tolist()],
        marks=_marks(listing),
    )


def _carried(counts: list[int], first: int) -> list[int]:
    """Where nothing came there are as many as before."""
    found = []
    for count in counts:
        first = count if count >= 0 else first
        found.append(first)
    return found


def _marks(listing: Listing) -> list[BirthMark]:
    born = [(row.born, row) for row in listing.rows.values() if row.born is not None]
    born.sort(key=lambda one: one[0])
    return [
        BirthMark(sequence=sequence, category=row.id, label=row.label, time=row.born_time)
        for sequence, row in born[-MOST_MARKS:]
    ]
