"""Catching up: records that were answered before a restart meet their answers again."""

from collections import deque
from collections.abc import AsyncIterator, Sequence

from speciate.errors import StateMismatchError
from speciate.stages import Record
from speciate_schemas import Answer


class Replay:
    """Answers committed before, handed out beside the records they answer."""

    def __init__(self, pieces: AsyncIterator[Sequence[Answer]] | None, until: int) -> None:
        self._pieces = pieces
        self._answers: deque[Answer] = deque()
        self.until = until
        """Every record before this one is answered."""

    async def announce(self, count: int) -> list[str]:
        """The origins of the next answers that were not announced yet, so that `count` are known, or all there are."""
        origins: list[str] = []
        while self._pieces is not None and len(self._answers) < count:
            piece = await anext(self._pieces, None)
            if piece is None:
                self._pieces = None
            else:
                self._answers.extend(piece)
                origins += [answer.origin for answer in piece]
        return origins

    async def match(self, records: Sequence[Record]) -> None:
        """Give the records that were answered their answers; the others were dropped before they were decided."""
        for record in records:
            if not self._answers:
                await self.announce(1)
            if not self._answers:
                return
            if self._answers[0].sequence < record.sequence:
                raise StateMismatchError(
                    f"the outputs answer record {self._answers[0].sequence}, which the input no longer holds: "
                    "restore the input or start over with --fresh"
                )
            if self._answers[0].sequence == record.sequence:
                record.answer = self._answers.popleft()
