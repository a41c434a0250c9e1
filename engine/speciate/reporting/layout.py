"""Where labels go so that none covers another."""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple


def spread_out(wanted: Sequence[float], apart: float, lowest: float, highest: float) -> list[float]:
    """Places as near to the wanted ones as they can be, in the same order, that far apart and between two bounds.

    Where there is no room for all, they are evenly spread.
    """
    if not wanted:
        return []
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    if apart * (len(wanted) - 1) >= highest - lowest:
        step = (highest - lowest) / max(len(wanted) - 1, 1)
        placed = [lowest + step * rank for rank in range(len(wanted))]
    else:
        placed = _settle([wanted[place] for place in order], apart, lowest, highest)
    result = [0.0] * len(wanted)
    for place, value in zip(order, placed, strict=True):
        result[place] = value
    return result


def _settle(values: Sequence[float], apart: float, lowest: float, highest: float) -> list[float]:
    """Least squares under the distances: neighbours that touch move as one, by the mean of what they want."""
    blocks: list[tuple[float, int]] = []
    for rank, value in enumerate(values):
        # Less the room of those before it, a place may not be smaller than the one before.
        total, members = value - rank * apart, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / members:
            before, more = blocks.pop()
            total, members = total + before, members + more
        blocks.append((total, members))
    flat = [total / members for total, members in blocks for _ in range(members)]
    room = highest - (len(values) - 1) * apart
    return [min(max(value, lowest), room) + rank * apart for rank, value in enumerate(flat)]


class Box(NamedTuple):
    """A rectangle: left, bottom, width, height."""

    left: float
    bottom: float
    width: float
    height: float

    def meets(self, other: "Box") -> bool:
        """Whether they overlap."""
        return (
            self.left < other.left + other.width
            and other.left < self.left + self.width
            and self.bottom < other.bottom + other.height
            and other.bottom < self.bottom + self.height
        )


def place_beside(points: Sequence[tuple[float, float]], sizes: Sequence[tuple[float, float]], gap: float) -> list[Box]:
    """A box right of each point, shifted down by as little as keeps it clear of points and of the boxes before it."""
    marks = [Box(x - gap / 2, y - gap / 2, gap, gap) for x, y in points]
    placed: list[Box] = []
    for own, (x, y), (width, height) in zip(marks, points, sizes, strict=True):
        for step in count():
            box = Box(x + gap, y - height / 2 - step * height / 4, width, height)
            if not any(box.meets(other) for other in [*placed, *(mark for mark in marks if mark is not own)]):
                placed.append(box)
                break
    return placed
