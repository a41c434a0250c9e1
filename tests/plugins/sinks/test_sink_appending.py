"""JSON Lines and event logs: cutting back, full disks, outputs somebody changed."""

import errno
import os
from pathlib import Path

import pytest

from speciate.conformance import check_sink
from speciate.errors import OutputError, StateMismatchError
from speciate_plugins.sinks import appending
from speciate_plugins.sinks.appending import AppendingSink, FileOptions
from speciate_plugins.sinks.eventlog import EventLogSink
from speciate_plugins.sinks.jsonl import JsonLinesSink
from speciate_schemas import DeadLetter, Message, decode

KINDS = {"eventlog": EventLogSink, "jsonl": JsonLinesSink}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> type[AppendingSink]:
    return KINDS[request.param]


def sink(kind: type[AppendingSink], path: Path) -> AppendingSink:
    return kind(FileOptions(path=str(path)))


@pytest.mark.parametrize("size", [1 << 20, 1000])
async def test_it_keeps_the_laws(kind, tmp_path, answers, monkeypatch, size) -> None:
    monkeypatch.setattr(appending, "BUFFER_BYTES", size)
    await check_sink(lambda: sink(kind, tmp_path / "new" / "folder" / "out"), answers)


async def test_cut_back_and_gone_on_gives_the_same_bytes(kind, tmp_path, answers) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)
    await one.write(answers[:100])
    middle = await one.flush()
    await one.write(answers[100:])
    end = await one.flush()
    await one.close()
    whole = (tmp_path / "out").read_bytes()
    assert end == (len(whole),)
    again = sink(kind, tmp_path / "out")
    await again.open(middle)
    await again.write(answers[100:])
    assert await again.flush() == end
    await again.close()
    assert (tmp_path / "out").read_bytes() == whole


async def test_dead_letters_keep_their_bytes(tmp_path, dead_letter) -> None:
    one = sink(JsonLinesSink, tmp_path / "dead")
    await one.open(None)
    await one.write([dead_letter])
    await one.flush()
    await one.close()
    letter = decode((tmp_path / "dead").read_bytes(), Message, "json")
    assert isinstance(letter, DeadLetter)
    assert bytes(letter.original) == bytes(dead_letter.original)
    assert one.locate(7) == f"{tmp_path / 'dead'}#7"


async def test_refusals_name_the_path_and_the_remedy(kind, tmp_path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"mine")
    with pytest.raises(StateMismatchError, match=f"{path} is not empty .* --fresh"):
        await sink(kind, path).open(None)
    with pytest.raises(StateMismatchError, match=f"{path} has 4 bytes but 5 were committed"):
        await sink(kind, path).open((5,))
    with pytest.raises(StateMismatchError, match="was not made by the sink"):
        await sink(kind, path).open(("x", 5))
    assert path.read_bytes() == b"mine"
    path.unlink()
    with pytest.raises(StateMismatchError, match="has 0 bytes but 5 were committed"):
        await sink(kind, path).open((5,))
    assert not path.exists()
    with pytest.raises(OutputError, match="Is a directory"):
        await sink(kind, tmp_path).open(None, fresh=True)


async def test_a_changed_output_is_noticed_on_reading_back(kind, tmp_path, answers) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)
    await one.write(answers[:3])
    end = await one.flush()
    damaged = bytearray((tmp_path / "out").read_bytes())
    damaged[len(damaged) // 2] = 0
    (tmp_path / "out").write_bytes(damaged)
    with pytest.raises(StateMismatchError, match=r"out@\d+ is not an answer any more"):
        [piece async for piece in one.read_back((0,), end)]
    os.truncate(tmp_path / "out", 0)
    with pytest.raises(StateMismatchError, match="has 0 bytes but"):
        [piece async for piece in one.read_back((0,), end)]
    (tmp_path / "out").unlink()
    with pytest.raises(OutputError, match="cannot read the output back"):
        [piece async for piece in one.read_back((0,), end)]
    await one.close()


async def test_a_full_disk_is_told(kind, answers) -> None:
    one = sink(kind, Path("/dev/full"))
    await one.open(None)
    await one.write(answers[:3])
    with pytest.raises(OutputError, match="cannot write /dev/full: No space left on device; mend that and run again"):
        await one.flush()
    await one.close()


async def test_a_disk_that_fills_up_damages_nothing_committed(kind, tmp_path, answers, monkeypatch) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)
    await one.write(answers[:100])
    committed = await one.flush()
    real, left = os.write, [50]

    def filling(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, bytes(data)[: left[0]])
        left[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", filling)
        await one.write(answers[100:])
        with pytest.raises(OutputError, match="No space left on device"):
            await one.flush()
    assert (tmp_path / "out").stat().st_size == committed[0] + 50
    # Room was made: going on writes what is missing and nothing twice.
    end = await one.flush()
    await one.close()
    again = sink(kind, tmp_path / "out")
    await again.open(end)
    assert [answer async for piece in again.read_back((0,), end) for answer in piece] == answers
    await again.close()


async def test_a_failing_fsync_is_told(kind, tmp_path, answers, monkeypatch) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OutputError, match="Input/output error"):
        await one.flush()
    await one.close()
    with pytest.raises(ValueError, match="is not open"):
        one.flush_now()


def append_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"mine\n")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize("meddle", [append_to, cut, replace])
@pytest.mark.parametrize("more", [0, 3])
async def test_whoever_else_writes_to_an_open_output_is_noticed_before_it_counts(
    *, kind, tmp_path, answers, meddle, more
) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)
    await one.write(answers[:5])
    await one.flush()
    await one.write(answers[5 : 5 + more])
    meddle(tmp_path / "out")
    with pytest.raises(StateMismatchError, match=r"out was written to, cut or replaced by someone else"):
        await one.flush()
    await one.close()


async def test_an_open_output_that_was_removed_is_an_error(kind, tmp_path, answers) -> None:
    one = sink(kind, tmp_path / "out")
    await one.open(None)
    await one.write(answers[:5])
    await one.flush()
    (tmp_path / "out").unlink()
    with pytest.raises(OutputError, match="No such file"):
        await one.flush()
    await one.close()
