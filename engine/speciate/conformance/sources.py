"""The laws of a source."""

from collections.abc import Callable
from typing import Any

from speciate.conformance.expecting import expect, expect_equal
from speciate.stages import Record, Source
from speciate_schemas import Position, encode

READ_SIZES = (1, 2, 7, 64, 100_000)
RESUMES = 40


async def check_source(make: Callable[[], Source]) -> None:
    """Check a source of a finite, unchanging input that holds at least one record.

    `make` makes a new source of the same input each time. The laws:

    - Reading in portions of any size gives the same records, never more at once than asked for.
    - Records are numbered one after another from the number given to `open`.
    - Every record has an event or an error, never both.
    - A replayable source opened at any record's position yields exactly the records behind it.
    - After `stop` no more than a read under way comes, then nothing.
    - `close` may be called twice.
    """
    if not make().replayable:
        await _check_once(make)
        return
    whole = await _read_all(make(), None, 0, READ_SIZES[-1])
    expect(bool(whole), "the input of the check must hold at least one record")
    for size in READ_SIZES[:-1]:
        again = await _read_all(make(), None, 0, size)
        expect_equal(again, whole, f"reading {size} at a time must give the same records")
    # Some of the places in a long input tell as much as all of them.
    for place in sorted({round(step * (len(whole) - 1) / RESUMES) for step in range(RESUMES + 1)}):
        record = whole[place]
        rest = await _read_all(make(), record["position"], record["sequence"] + 1, 64)
        expect_equal(rest, whole[place + 1 :], f"opened behind record {place} it must yield exactly the rest")
    await _check_stop(make())


async def _check_once(make: Callable[[], Source]) -> None:
    """A pipe can be read only once, so only what one reading shows is checked."""
    records = await _read_all(make(), None, 3, 2)
    expect(bool(records), "the input of the check must hold at least one record")


async def _check_stop(source: Source) -> None:
    try:
        await source.open(None, 0)
        await source.read(1)
        source.stop()
        expect_equal(list(await source.read(1)), [], "after stop() a read must be empty")
    finally:
        await source.close()


async def _read_all(source: Source, position: Position | None, sequence: int, size: int) -> list[dict[str, Any]]:
    """Everything a source yields, as values that can be compared."""
    seen: list[dict[str, Any]] = []
    try:
        await source.open(position, sequence)
        while records := await source.read(size):
            expect(len(records) <= size, f"read({size}) gave {len(records)} records")
            seen.extend(_described(record) for record in records)
    finally:
        await source.close()
        await source.close()
    numbers = [record["sequence"] for record in seen]
    expect_equal(numbers, list(range(sequence, sequence + len(seen))), "records must be numbered one after another")
    return seen


def _described(record: Record) -> dict[str, Any]:
    if (record.event is None) == (record.error is None):
        raise AssertionError(f"record {record.sequence} must have either an event or an error")
    return {
        "sequence": record.sequence,
        "position": tuple(record.position),
        "origin": record.origin,
        "nbytes": record.nbytes,
        "event": None if record.event is None else encode(record.event),
        "original": None if record.original is None else bytes(record.original),
        "error": None if record.error is None else (type(record.error).__name__, str(record.error)),
    }
