"""Places in the logs of Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate.errors import SourceError
from speciate_plugins.kafka.positions import Log, Places, read_origin, read_position

LOGS = st.builds(Log, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 1000))
OFFSETS = st.integers(0, 2**62)


@given(LOGS, OFFSETS)
def test_an_origin_names_one_message(log: Log, offset: int) -> None:
    assert read_origin(log.origin(offset)) == (log, offset)


@given(st.dictionaries(LOGS, OFFSETS, min_size=1))
def test_a_position_names_all_logs(offsets: dict[Log, int]) -> None:
    position = Places(offsets).position
    assert read_position(position) == offsets
    assert position == tuple(part for log, offset in sorted(offsets.items()) for part in (*log, offset))


@given(st.dictionaries(LOGS, OFFSETS, min_size=1), st.data())
def test_a_position_follows_each_step(offsets: dict[Log, int], data: st.DataObject) -> None:
    places = Places(offsets)
    for _ in range(5):
        log, offset = data.draw(st.sampled_from(sorted(offsets))), data.draw(OFFSETS)
        offsets[log] = offset
        kept = places.move(log, offset)
        assert kept == places.position
        assert read_position(kept) == offsets
        assert places[log] == offset


@pytest.mark.parametrize("origin", ["", "file.jsonl:17", "topic@3", "/0@1", "topic/x@3", "topic/0@-1", "topic/0@"])
def test_an_origin_of_something_else(origin: str) -> None:
    with pytest.raises(SourceError, match="is no message of Kafka"):
        read_origin(origin)


@pytest.mark.parametrize(
    "position", [(), (0, "a.jsonl", 5), ("a", 0), ("a", 0, 1, "b"), ("a", "0", 1), ("a", 0, 1, "a", 0, 2)]
)
def test_a_position_of_something_else(position: tuple[int | str, ...]) -> None:
    with pytest.raises(SourceError, match="was not made by this source"):
        read_position(position)
