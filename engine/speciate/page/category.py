"""One category: its members on a plane, where it expects the next, how it has moved, and who is near."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.page.cards import Traced, card, copy_traces
from speciate.page.listing import Listing
from speciate.page.pictures import Pictures, finished
from speciate.page.plane import Plane, plane_of
from speciate.page.subject import Subject, Where, no_category
from speciate.page.suggestions import views
from speciate.pipeline import Inside
from speciate.stages import Extent
from speciate.suggesting import ranked
from speciate_schemas.page import CategoryView, MemberView, Neighbour, Spot

NEAREST = 6
SUGGESTED = 5
MEMBERS = 1024

Vectors = Sequence[npt.NDArray[np.floating]]


class _Drawn(NamedTuple):
    """What the head says of a category on a plane."""

    now: Extent | None
    before: Extent | None
    centre: npt.NDArray[np.floating] | None


class _Around(NamedTuple):
    nearest: list[tuple[int, float]]
    gains: list[tuple[int, int, float]]


async def category_view(
    subject: Subject, where: Where, number: int, listing: Listing, pictures: Pictures
) -> CategoryView:
    """All about a category; raises `UnknownCategoryError` if there is none of this number."""
    row = listing.rows.get(number)
    if row is None:
        raise no_category(number)
    traced, sequences, trail, sequence = await subject.look(where, partial(_copy, number=number))
    await finished(traced.exemplars)
    plane = plane_of([one.features for one in traced.exemplars])
    drawn = None if plane is None else await subject.look(where, partial(_draw, number=number, plane=plane))
    around = await subject.look(where, partial(_look_around, number=number))
    members, spots = [], []
    if plane is not None and drawn is not None:
        # Those with pictures are the first: it is the sample's order.
        shown = [pictures.view(where, number, one) for one in traced.exemplars]
        places = plane.place([one.features for one in traced.exemplars])
        members = [MemberView(exemplar=one, x=x, y=y) for one, (x, y) in zip(shown, places, strict=True)]
        if drawn.centre is not None:
            sequences, trail = [*sequences, sequence], [*trail, drawn.centre]
        path = zip(sequences, plane.place(trail), strict=True)
        spots = [Spot(sequence=when, x=x, y=y) for when, (x, y) in path]
    return CategoryView(
        card=card(where, row, traced, pictures),
        width=traced.width,
        members=members,
        explained=[] if plane is None else list(plane.explained),
        ellipse=plane and drawn and plane.ellipse(drawn.now),
        ellipse_before=plane and drawn and plane.ellipse(drawn.before),
        trail=spots,
        nearest=_neighbours(around.nearest, listing),
        suggestions=views(ranked(listing.rows, _finite(around.gains), SUGGESTED, everything=True)),
    )


def _copy(inside: Inside, number: int) -> tuple[Traced, list[int], list[npt.NDArray[np.floating]], int]:
    """On the head's thread: what it has left."""
    traced = copy_traces(inside, [number], MEMBERS).get(number)
    if traced is None:
        raise no_category(number)
    trace = inside.chronicle.traces[number]
    return traced, list(trace.trail_sequences), list(trace.trail), inside.sequence


def _draw(inside: Inside, number: int, plane: Plane) -> _Drawn:
    """On the head's thread."""
    head = inside.head
    return _Drawn(head.extent(number, plane.axes), head.extent(None, plane.axes), head.centre(number))


def _look_around(inside: Inside, number: int) -> _Around:
    """On the head's thread."""
    head = inside.head
    return _Around(head.nearest(number, NEAREST), head.merge_gains(SUGGESTED, number) if head.suggests else [])


def _neighbours(nearest: list[tuple[int, float]], listing: Listing) -> list[Neighbour]:
    return [
        Neighbour(category=row.id, label=row.label, known=row.known, count=row.count, log_density=log_density)
        for number, log_density in nearest
        if math.isfinite(log_density) and (row := listing.rows.get(number)) is not None
    ]


def _finite(gains: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    return [one for one in gains if math.isfinite(one[2])]
