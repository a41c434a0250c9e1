"""The laws of a sink."""

from collections.abc import Callable, Sequence

from speciate.conformance.expecting import expect, expect_equal
from speciate.errors import StateMismatchError
from speciate.stages import Sink
from speciate_schemas import Answer, Position


async def check_sink(make: Callable[[], Sink], answers: Sequence[Answer]) -> None:
    """Check a sink with some answers, two at least.

    `make` makes a new sink for the same output each time; there is nothing in it yet. The laws:

    - What was written and flushed is read back, between any two flushed positions, in order, in no empty pieces.
    - Flushing twice changes nothing; closing twice is fine.
    - Cut back to a flushed position and written to again, the output is as if it had never been cut back.
    - Opened without a position, an output that is not empty is refused with `StateMismatchError`.
    - Opened `fresh`, what was there is discarded.
    - What was committed and is gone is noticed with `StateMismatchError`.

    Of a sink that is not durable only writing, flushing and closing are checked.
    """
    expect(len(answers) > 1, "the check needs at least two answers")
    if not make().durable:
        await _write(make(), None, [answers])
        return
    half = len(answers) // 2
    first, second = answers[:half], answers[half:]
    start, middle, end = await _write(make(), None, [first, second])
    expect_equal(await _read(make(), end, start, end), list(answers), "what was written must be read back")
    expect_equal(await _read(make(), end, middle, end), list(second), "reading back must start at the given position")
    expect_equal(await _read(make(), end, start, middle), list(first), "reading back must end at the given position")
    # Other answers than those cut off, so that what was left standing shows.
    _, redone = await _write(make(), middle, [answers])
    law = "cut back and gone on, it must be as if never cut back"
    expect_equal(await _read(make(), redone, start, redone), [*first, *answers], law)
    await _check_refused(make(), None, "an output that is not empty must be refused without a position")
    await _check_fresh(make, first, end)


async def _check_fresh(make: Callable[[], Sink], first: Sequence[Answer], end: Position) -> None:
    start, position = await _write(make(), None, [first], fresh=True)
    expect_equal(await _read(make(), position, start, position), list(first), "fresh must discard what was there")
    await _check_refused(make(), end, "committed answers that are gone must be noticed")


async def _check_refused(sink: Sink, position: Position | None, law: str) -> None:
    try:
        await sink.open(position)
    except StateMismatchError:
        return
    finally:
        await sink.close()
    raise AssertionError(law)


async def _write(
    sink: Sink, position: Position | None, portions: Sequence[Sequence[Answer]], *, fresh: bool = False
) -> list[Position]:
    """Write portions, each flushed; the position before and the position behind each."""
    try:
        await sink.open(position, fresh=fresh)
        positions = [await sink.flush()]
        for portion in portions:
            await sink.write(portion)
            positions.append(await sink.flush())
            expect_equal(await sink.flush(), positions[-1], "flushing twice must change nothing")
    finally:
        await sink.close()
        await sink.close()
    return positions


async def _read(sink: Sink, position: Position, start: Position, end: Position) -> list[Answer]:
    answers: list[Answer] = []
    try:
        await sink.open(position)
        async for piece in sink.read_back(start, end):
            expect(bool(piece), "read_back must not yield an empty piece")
            answers.extend(piece)
    finally:
        await sink.close()
    return answers
