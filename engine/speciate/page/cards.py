"""Categories in brief, as the gallery shows them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from speciate.exemplars import Kept
from speciate.page.listing import Row
from speciate.page.subject import Where
from speciate.page.thumbnails import Thumbnails
from speciate.page.timelines import parts_so_far
from speciate.pipeline import Inside
from speciate_schemas.page import CategoryCard

EXEMPLARS = 8
"""On a card."""


class Traced(NamedTuple):
    """What a category has left, copied out of the chronicle."""

    spread: float | None
    exemplars: list[Kept]
    activity: dict[int, int]
    width: int
    parts: int
    """Parts of the timeline so far."""


def copy_traces(inside: Inside, numbers: Sequence[int], most: int = EXEMPLARS) -> dict[int, Traced]:
    """On the head's thread: some categories by number; those that are gone are left out."""
    chronicle, head = inside.chronicle, inside.head
    width = chronicle.timeline.width
    parts = parts_so_far(inside.sequence, width)
    return {
        number: Traced(head.spread(number), list(trace.exemplars[:most]), dict(trace.activity), width, parts)
        for number in numbers
        if (trace := chronicle.traces.get(number)) is not None
    }


def card(where: Where, row: Row, traced: Traced, thumbnails: Thumbnails) -> CategoryCard:
    """The card of a category."""
    spread = traced.spread
    return CategoryCard(
        id=row.id,
        label=row.label,
        known=row.known,
        count=row.count,
        seen=row.seen,
        born=row.born,
        born_time=row.born_time,
        last_sequence=row.last_sequence,
        last_time=row.last_time,
        spread=spread if spread is not None and math.isfinite(spread) else None,
        activity=[traced.activity.get(part, 0) for part in range(traced.parts)],
        exemplars=[thumbnails.view(where, row.id, one) for one in traced.exemplars[:EXEMPLARS]],
    )
