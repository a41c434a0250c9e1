"""The conformance checks notice plugins that break a law."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from speciate.conformance import check_sink, check_source, check_store
from speciate.stages import Record
from speciate_plugins.sinks.appending import FileOptions
from speciate_plugins.sinks.jsonl import JsonLinesSink
from speciate_plugins.sources.jsonl import JsonLinesSource
from speciate_plugins.sources.streams import StreamOptions
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import Assignment, FeatureEvent, Position, encode


@pytest.fixture
def log(tmp_path) -> StreamOptions:
    lines = [encode(FeatureEvent(id=str(n), features=[1.0]), "json") for n in range(9)]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    return StreamOptions(paths=[str(tmp_path / "in")])


class Forgetful(JsonLinesSource):
    """Starts at the beginning whatever it is told."""

    def open_now(self, position: Position | None, sequence: int) -> None:
        super().open_now(None, sequence)


class Generous(JsonLinesSource):
    """Gives more than it is asked for."""

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        return super().read_now(max_events + 1)


class Unnumbered(JsonLinesSource):
    """Numbers from 0 whatever it is told."""

    def open_now(self, position: Position | None, sequence: int) -> None:
        super().open_now(position, 0)


class Endless(JsonLinesSource):
    """Does not stop."""

    def stop(self) -> None:
        pass


class Undecided(JsonLinesSource):
    """Gives neither event nor error."""

    def read_now(self, max_events: int) -> Sequence[Record] | None:
        records = super().read_now(max_events)
        for record in records or ():
            record.event = None
        return records


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Forgetful, "must yield exactly the rest"),
        (Generous, r"read\(1\) gave 2 records"),
        (Unnumbered, "numbered one after another"),
        (Endless, r"after stop\(\)"),
        (Undecided, "either an event or an error"),
    ],
)
async def test_a_broken_source_is_noticed(log, kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        await check_source(lambda: kind(log))


async def test_a_source_without_records_tells_nothing(tmp_path) -> None:
    (tmp_path / "in").touch()
    with pytest.raises(AssertionError, match="at least one record"):
        await check_source(lambda: JsonLinesSource(StreamOptions(paths=[str(tmp_path / "in")])))


class Careless(JsonLinesSink):
    """Writes over whatever is there."""

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        super().open_now(position, fresh=position is None)


class Uncut(JsonLinesSink):
    """Does not cut back, only forgets that it should have."""

    def open_now(self, position: Position | None, *, fresh: bool) -> None:
        path = Path(self.describe())
        before = path.read_bytes() if path.exists() else b""
        super().open_now(position, fresh=fresh)
        path.write_bytes(before)
        self._length = len(before)


class Lossy(JsonLinesSink):
    """Loses the last item."""

    def write_now(self, items: Sequence[object]) -> None:
        super().write_now(items[:-1])


@pytest.mark.parametrize(
    ("kind", "law"),
    [(Careless, "must be refused without a position"), (Uncut, "as if never cut back"), (Lossy, "must be read back")],
)
async def test_a_broken_sink_is_noticed(tmp_path, kind, law) -> None:
    answers = [
        Assignment(
            id=str(n),
            stream="",
            sequence=n,
            category=n,
            label=None,
            birth=True,
            log_evidence=0.0,
            margin=None,
            probability=1.0,
            head_version=n,
        )
        for n in range(10)
    ]
    with pytest.raises(AssertionError, match=law):
        await check_sink(lambda: kind(FileOptions(path=str(tmp_path / "out"))), answers)


class Unlocked(DirectoryStore):
    """Lets everyone in."""

    def _take_lock(self) -> None:
        pass


class Kept(DirectoryStore):
    """Is never fresh."""

    def open(self, *, fresh: bool) -> None:
        super().open(fresh=False)


@pytest.mark.parametrize(("kind", "law"), [(Unlocked, "StateLockedError"), (Kept, "fresh must empty the store")])
def test_a_broken_store_is_noticed(tmp_path, kind, law) -> None:
    with pytest.raises(AssertionError, match=law):
        check_store(lambda: kind(DirectoryOptions(path=str(tmp_path))))
