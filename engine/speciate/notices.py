"""Log lines about single inputs: what was rejected, and what was changed by hand. Bounded, however many there are."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from speciate.logs import get_logger
from speciate.task import Outcome
from speciate_schemas import Assignment, ControlApplied, Rejection
from speciate_schemas.events import tag_of

MOST_AT_ONCE = 5.0
LINES_A_SECOND = 1.0

log = get_logger(__name__)


class Notices:
    """Writes a line for the first few rejections and from then on one a second, which says how many it stands for.

    Each has the stream and where the input came from, such as topic, partition and offset. The dead letters have all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._lines = MOST_AT_ONCE
        self._unsaid = 0

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """A batch was handed to the sink."""
        for answer in [one for one, _ in outcomes if type(one) is not Assignment]:
            if isinstance(answer, Rejection):
                self._reject(answer)
            elif isinstance(answer, ControlApplied):
                log.info("changed by hand", change=tag_of(type(answer.control)), **_place(answer))

    def _reject(self, rejection: Rejection) -> None:
        now = self._clock()
        self._lines = min(MOST_AT_ONCE, self._lines + (now - self._since) * LINES_A_SECOND)
        self._since = now
        if self._lines < 1.0:
            self._unsaid += 1
            return
        self._lines -= 1.0
        unsaid = {"others": self._unsaid} if self._unsaid else {}
        self._unsaid = 0
        about = {"stage": rejection.stage, "error": rejection.error, "reason": rejection.message}
        log.info("an input was rejected", **_place(rejection), **about, dead_letter=rejection.dead_letter, **unsaid)


def _place(answer: Rejection | ControlApplied) -> dict[str, Any]:
    return {"id": answer.id, "stream": answer.stream, "sequence": answer.sequence, "origin": answer.origin}
