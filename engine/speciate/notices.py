"""Log lines about single inputs: what was rejected, and what was changed by hand. Bounded, however many there are."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from speciate.logs import Lines, get_logger
from speciate.outcomes import Outcome
from speciate_schemas import Assignment, ControlApplied, Rejection
from speciate_schemas.events import tag_of

log = get_logger(__name__)


class Notices:
    """Writes a line for the first few of a kind and from then on one a second, which says how many it stands for.

    Each has the stream and where the input came from, such as topic, partition and offset. The outputs have all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._rejections = Lines(log, "an input was rejected", clock)
        self._changes = Lines(log, "changed by hand", clock)

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """A batch was handed to the sink."""
        for answer in [one for one, _ in outcomes if type(one) is not Assignment]:
            if isinstance(answer, Rejection):
                about = {"stage": answer.stage, "error": answer.error, "reason": answer.message}
                self._rejections.say(**_place(answer), **about, dead_letter=answer.dead_letter)
            elif isinstance(answer, ControlApplied):
                self._changes.say(**_place(answer), change=tag_of(type(answer.control)))

    def close(self) -> None:
        """Tell how many more there were."""
        self._rejections.close()
        self._changes.close()


def _place(answer: Rejection | ControlApplied) -> dict[str, Any]:
    return {"id": answer.id, "stream": answer.stream, "sequence": answer.sequence, "origin": answer.origin}
