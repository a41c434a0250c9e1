"""One category: its members on a plane, where it expects the next, how it has moved, and who is near."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.exemplars import Kept
from speciate.page.cards import Traced, card, copy_traces
from speciate.page.listing import Listing
from speciate.page.plane import Plane, plane_of
from speciate.page.subject import Subject, Where, no_category
from speciate.page.suggestions import views
from speciate.page.thumbnails import Thumbnails, finished
from speciate.pipeline import Inside
from speciate.stages import Extent
from speciate.suggesting import ranked
from speciate_schemas.page import CategoryView, ExemplarView, MemberView, Neighbour, Spot

NEAREST = 6
SUGGESTED = 5
MEMBERS = 1024


class _Left(NamedTuple):
    """What a category has left."""

    traced: Traced
    trail_sequences: list[int]
    trail: list[npt.NDArray[np.floating]]
    sequence: int
    """Number of the next input."""


class _Drawn(NamedTuple):
    """What the head says of a category on a plane."""

    now: Extent | None
    before: Extent | None
    centre: npt.NDArray[np.floating] | None


class _Around(NamedTuple):
    nearest: list[tuple[int, float]]
    gains: list[tuple[int, int, float]]


async def category_view(
    subject: Subject, where: Where, number: int, listing: Listing, thumbnails: Thumbnails
) -> CategoryView:
    """All about a category; raises `UnknownCategoryError` if there is none of this number."""
    row = listing.rows.get(number)
    if row is None:
        raise no_category(number)
    left = await subject.look(where, partial(_copy, number=number))
    exemplars = left.traced.exemplars
    await finished(exemplars)
    plane = await subject.work(partial(plane_of, [one.features for one in exemplars]), apart=True)
    drawn = None if plane is None else await subject.look(where, partial(_draw, number=number, plane=plane))
    around = await subject.look(where, partial(_look_around, number=number))

    def view() -> CategoryView:
        return CategoryView(
            card=card(where, row, left.traced, thumbnails),
            width=left.traced.width,
            members=[] if plane is None else _members(exemplars, plane, partial(thumbnails.view, where, number)),
            explained=[] if plane is None else list(plane.explained),
            ellipse=plane and drawn and plane.ellipse(drawn.now),
            ellipse_before=plane and drawn and plane.ellipse(drawn.before),
            trail=[] if plane is None or drawn is None else _trail(left, drawn, plane),
            nearest=_neighbours(around.nearest, listing),
            suggestions=views(ranked(listing.rows, _finite(around.gains), SUGGESTED, everything=True)),
        )

    return await subject.work(view)


def _members(exemplars: list[Kept], plane: Plane, view: Callable[[Kept], ExemplarView]) -> list[MemberView]:
    """Those with pictures are the first: it is the sample's order."""
    places = plane.place([one.features for one in exemplars])
    return [MemberView(exemplar=view(one), x=x, y=y) for one, (x, y) in zip(exemplars, places, strict=True)]


def _trail(left: _Left, drawn: _Drawn, plane: Plane) -> list[Spot]:
    sequences, trail = left.trail_sequences, left.trail
    if drawn.centre is not None:
        sequences, trail = [*sequences, left.sequence], [*trail, drawn.centre]
    path = zip(sequences, plane.place(trail), strict=True)
    return [Spot(sequence=when, x=x, y=y) for when, (x, y) in path]


def _copy(inside: Inside, number: int) -> _Left:
    """On the head's thread: what it has left."""
    traced = copy_traces(inside, [number], MEMBERS).get(number)
    if traced is None:
        raise no_category(number)
    trace = inside.chronicle.traces[number]
    return _Left(traced, list(trace.trail_sequences), list(trace.trail), inside.sequence)


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
