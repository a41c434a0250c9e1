"""The folder of Parquet parts: immutable, in order, whole."""

import errno
import os

import pyarrow.parquet as pq
import pytest

from speciate.conformance import check_sink
from speciate.errors import OutputError, StateMismatchError
from speciate_plugins.sinks.parquet import COLUMNS, FIELDS, ParquetOptions, ParquetSink


def sink(path) -> ParquetSink:
    return ParquetSink(ParquetOptions(path=str(path)))


async def filled(path, answers) -> ParquetSink:
    one = sink(path)
    await one.open(None)
    for portion in (answers[:5], [], answers[5:10]):
        await one.write(portion)
        await one.flush()
    return one


async def test_it_keeps_the_laws(tmp_path, answers) -> None:
    await check_sink(lambda: sink(tmp_path / "new" / "out"), answers)


def test_every_field_has_its_column() -> None:
    assert {"type", *(name for names in FIELDS.values() for name in names)} == set(COLUMNS)


async def test_anyone_can_read_it(tmp_path, answers, dead_letter) -> None:
    one = await filled(tmp_path / "out", answers)
    await one.write([dead_letter, *answers[-5:]])
    assert await one.flush() == (3,)
    await one.close()
    table = pq.read_table(tmp_path / "out").to_pylist()
    assert len(table) == 16
    assert table[10]["original"] == bytes(dead_letter.original)
    assert table[10]["type"] == "dead-letter.v1"
    assert table[11]["control"].startswith('{"type":"rename.v1"')
    assert table[0]["category"] == 0
    assert one.locate(3) == f"{tmp_path / 'out'}#3"


async def test_later_parts_and_leftovers_are_removed(tmp_path, answers) -> None:
    await (await filled(tmp_path / "out", answers)).close()
    (tmp_path / "out" / "part-00000002.parquet.tmp").write_bytes(b"half")
    (tmp_path / "out" / "README").write_text("mine")
    one = sink(tmp_path / "out")
    await one.open((1,))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["README", "part-00000000.parquet"]
    await one.close()


async def test_missing_parts_are_noticed(tmp_path, answers) -> None:
    one = await filled(tmp_path / "out", answers)
    (tmp_path / "out" / "part-00000000.parquet").unlink()
    with pytest.raises(StateMismatchError, match="has 0 parts but 2 were committed"):
        await one.open((2,))
    with pytest.raises(StateMismatchError, match="is not empty"):
        await one.open(None)
    (tmp_path / "out" / "part-00000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(StateMismatchError, match=r"part-00000001.parquet does not hold answers any more"):
        [piece async for piece in one.read_back((1,), (2,))]
    await one.close()


async def test_dead_letters_are_no_answers(tmp_path, dead_letter) -> None:
    one = sink(tmp_path)
    await one.open(None)
    await one.write([dead_letter])
    end = await one.flush()
    with pytest.raises(StateMismatchError, match="does not hold answers"):
        [piece async for piece in one.read_back((0,), end)]
    await one.close()


async def test_a_full_disk_leaves_no_part(tmp_path, answers, monkeypatch) -> None:
    one = await filled(tmp_path / "out", answers)
    await one.write(answers[10:20])

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"part-00000002.parquet: No space left on device"):
            await one.flush()
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert await one.flush() == (3,)
    assert [answer async for piece in one.read_back((0,), (3,)) for answer in piece] == answers[:20]
    await one.close()
