"""The CSV sink gives back what it was given, cuts back where it is told, and is CSV."""

import csv
from pathlib import Path

import pytest

from speciate.conformance.sinks import check_sink
from speciate.errors import StateMismatchError
from speciate_example_plugin.csv_sink import HEADER, CsvOptions, CsvSink
from speciate_schemas import Answer, Assignment, ControlApplied, Rejection, RenameCategory


def assignment(sequence: int, event: str = "e", label: str | None = None, margin: float | None = 0.1) -> Assignment:
    return Assignment(
        id=event,
        stream="camera",
        sequence=sequence,
        category=1,
        label=label,
        birth=sequence == 0,
        log_evidence=-1.0 / 3.0,
        margin=margin,
        probability=0.1 + 0.2,
        drift=0.7,
        head_version=sequence,
    )


ANSWERS: list[Answer] = [
    assignment(0, event='comma, "quote"', label="null"),
    assignment(1, event="two\r\nlines\rand a half", margin=None),
    Rejection(id=None, stream=None, sequence=2, stage="source", error="E", message="a,\nb", dead_letter="d#2"),
    ControlApplied(
        id="r", stream="", sequence=3, control=RenameCategory(id="r", category=1, label="vélo"), head_version=2
    ),
    assignment(4, event="type", margin=float("inf")),
]


async def back(sink: CsvSink, start: tuple[int | str, ...], end: tuple[int | str, ...]) -> list[Answer]:
    return [answer async for piece in sink.read_back(start, end) for answer in piece]


@pytest.fixture
def sink(tmp_path: Path) -> CsvSink:
    return CsvSink(CsvOptions(path=str(tmp_path / "deep" / "answers.csv")))


async def test_what_was_written_comes_back(sink: CsvSink) -> None:
    await sink.open(None)
    start = await sink.flush()
    await sink.write(ANSWERS[:2])
    middle = await sink.flush()
    await sink.write(ANSWERS[2:])
    end = await sink.flush()
    assert await back(sink, start, end) == ANSWERS
    assert await back(sink, middle, end) == ANSWERS[2:]
    await sink.close()
    await sink.close()


async def test_it_is_csv_with_one_header(sink: CsvSink) -> None:
    await sink.open(None)
    for answer in ANSWERS:
        await sink.write([answer])
    await sink.flush()
    await sink.close()
    with Path(sink.describe()).open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == HEADER
    assert [row[2] for row in rows[1:]] == ["0", "1", "2", "3", "4"]


async def test_it_is_cut_back_to_a_position(sink: CsvSink) -> None:
    await sink.open(None)
    start = await sink.flush()
    await sink.write(ANSWERS[:2])
    middle = await sink.flush()
    await sink.write(ANSWERS[2:])
    await sink.close()
    await sink.open(middle)
    await sink.write(ANSWERS[4:])
    end = await sink.flush()
    assert await back(sink, start, end) == [*ANSWERS[:2], ANSWERS[4]]
    await sink.close()


async def test_it_refuses_what_does_not_fit(sink: CsvSink) -> None:
    await sink.open(None)
    await sink.write(ANSWERS)
    (length,) = await sink.flush()
    await sink.close()
    with pytest.raises(StateMismatchError, match="not empty"):
        await sink.open(None)
    with pytest.raises(StateMismatchError, match="cut or replaced"):
        await sink.open((int(length) + 1,))
    with pytest.raises(StateMismatchError, match="another sink"):
        await sink.open(("answers", 1))
    await sink.open(None, fresh=True)
    assert await sink.flush() == (0,)
    await sink.close()


async def test_it_obeys_the_laws_of_sinks(tmp_path: Path) -> None:
    await check_sink(lambda: CsvSink(CsvOptions(path=str(tmp_path / "laws.csv"))), ANSWERS)
