"""The audience of a pipeline: whoever is told of the answers as they are handed to the sink."""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from speciate.outcomes import Outcome
from speciate_schemas import Assignment, ControlApplied, Rejection
from speciate_schemas.page import Told

T = TypeVar("T")

MOST_NEWS = 100
"""Births, and answers to control events, that wait to be taken; of more the newest."""
MOST_OTHERS = 20
"""Rejections of other inputs, and assignments that were no births."""


class News(NamedTuple):
    """What has happened since somebody asked last, oldest first."""

    births: list[Told]
    controls: list[Told]
    rejections: list[Told]
    assignments: list[Told]
    skipped: int
    """Answers that are in none of them."""


class Audience:
    """Keeps the newest of what was answered until it is taken; the pipeline notes it, and another thread may take it.

    Only answers are kept, and few: neither dead letters nor events, which may be large.
    """

    def __init__(self) -> None:
        self._births: deque[Told] = deque(maxlen=MOST_NEWS)
        self._controls: deque[Told] = deque(maxlen=MOST_NEWS)
        self._rejections: deque[Told] = deque(maxlen=MOST_OTHERS)
        self._assignments: deque[Told] = deque(maxlen=MOST_OTHERS)
        self._taken = 0
        self.answered = 0
        """Answers so far."""
        self.controls = 0
        """Control events that took effect so far: behind each of them categories may have other names and numbers."""

    def note(self, outcomes: Sequence[Outcome], task: int) -> None:
        """A batch of a task was handed to the sink."""
        for answer in [one for one, _ in outcomes if type(one) is not Assignment or one.birth]:
            if isinstance(answer, Assignment):
                self._births.append(Told(task, answer))
            elif isinstance(answer, Rejection):
                # Whoever has sent a control event waits for its answer: no flood of bad inputs may push that out.
                kept = self._controls if answer.stage == "control" else self._rejections
                kept.append(Told(task, answer))
            elif isinstance(answer, ControlApplied):
                self._controls.append(Told(task, answer))
                self.controls += 1
        newest = [one for one, _ in islice(reversed(outcomes), MOST_OTHERS)]
        self._assignments.extend(
            Told(task, one) for one in reversed(newest) if isinstance(one, Assignment) and not one.birth
        )
        self.answered += len(outcomes)

    def take(self) -> News:
        """What has happened since the last time."""
        answered = self.answered
        births, controls = _taken(self._births), _taken(self._controls)
        rejections, assignments = _taken(self._rejections), _taken(self._assignments)
        told = len(births) + len(controls) + len(rejections) + len(assignments)
        # A batch may be noted meanwhile: what is told of it now is not skipped the next time, when it is counted.
        skipped = max(0, answered - self._taken - told)
        self._taken += told + skipped
        return News(births, controls, rejections, assignments, skipped)


def _taken(kept: deque[T]) -> list[T]:
    """All of it, out of what another thread may be adding to."""
    return [kept.popleft() for _ in range(len(kept))]
