"""Snapshots: whole or passed over, newest first."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import make_head

from speciate.errors import StateDamagedError
from speciate.plugins import installed
from speciate.sealed import seal
from speciate.snapshot import build, newest_whole, parse, prune, whole_snapshots
from speciate_schemas import Array, Commit, RecentState, SnapshotManifest, Tally, TaskState, encode
from speciate_schemas.framing import pack
from strategies import STRATEGIES, options

RECENT = RecentState(streams=["cam"], ids=["x"], sequences=Array.of(np.array([1])))

commits, states = STRATEGIES[Commit], STRATEGIES[TaskState]
versions = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


@settings(deadline=None)
@given(commits, states, options, versions)
def test_a_snapshot_comes_back_as_it_was(commit, state, config, plugins):
    data = build(commit, state, config=config, plugins=plugins)
    snapshot = parse(data)
    assert (snapshot.commit, snapshot.state) == (commit, state)
    assert (snapshot.manifest.config, snapshot.manifest.plugins) == (config, plugins)
    assert snapshot.manifest.state_bytes == len(encode(state))
    assert build(commit, state, config=config, plugins=plugins) == data, "equal states must give equal bytes"


def test_each_stream_s_head_is_whole_and_one_for_all_has_no_name():
    head = make_head().state()
    streams = {name: msgspec.structs.replace(head, shared={}, categories=[]) for name in ("", "north")}
    state = TaskState(sequence=3, head=head, recent=RECENT, streams=streams)
    commit = Commit(sequence=3, source=(0, "in", 9), answers=(5,), dead_letters=(0,), tally=Tally())

    def heads(**run):
        return parse(build(commit, state, config={"run": run}, plugins={})).heads

    assert head.shared
    assert heads(universe="partition") == heads(universe="shared") == {None: head}
    assert heads(universe="stream") == dict.fromkeys(streams, msgspec.structs.replace(head, categories=[]))


def sample(sequence: int = 3) -> bytes:
    state = TaskState(sequence=sequence, head=make_head().state(), recent=RECENT)
    commit = Commit(sequence=sequence, source=(0, "in", 9), answers=(5,), dead_letters=(0,), tally=Tally())
    return build(commit, state, config={"policy": {"plugin": "dp"}}, plugins={"policy.dp": "1"})


@settings(deadline=None)
@given(st.data())
def test_damage_anywhere_is_noticed(data):
    damaged = bytearray(sample())
    place = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[place:]
    with pytest.raises(StateDamagedError):
        parse(bytes(damaged))


def test_a_state_that_is_not_the_manifests_is_refused():
    """Both halves are whole; they are just not of one snapshot."""
    other = parse(sample(4))
    mixed = seal(parse(sample(3)).manifest) + pack(encode(other.state))
    with pytest.raises(StateDamagedError, match="digest does not match"):
        parse(mixed)
    with pytest.raises(StateDamagedError):
        parse(seal(other.manifest))
    assert isinstance(other.manifest, SnapshotManifest)


@pytest.fixture
def store(tmp_path):
    provider = installed().provider("store", "directory")
    store = provider.create(provider.options(path=str(tmp_path)))
    store.open(fresh=False)
    yield store
    store.close()


def test_the_newest_whole_one_comes_first_and_damaged_ones_are_told(store, caplog):
    for sequence in (1, 2, 10, 11):
        store.save_snapshot(sequence, sample(sequence))
    store.save_snapshot(11, sample(11)[:-1])
    store.save_snapshot(2, b"")
    assert [snapshot.commit.sequence for snapshot in whole_snapshots(store)] == [10, 1]
    assert [(told.message, told.sequence) for told in caplog.records] == [
        ("snapshot is damaged, trying the one before it", 11),
        ("snapshot is damaged, trying the one before it", 2),
    ]


def pruning(store, monkeypatch, times):
    """Whenever somebody is about to load a snapshot, a pipeline saves newer ones and removes it, so many times."""
    load, newer = store.load_snapshot, iter(range(11, 11 + 2 * times))

    def load_late(sequence):
        for added in (next(newer, None), next(newer, None)):
            if added is not None:
                store.save_snapshot(added, sample(added))
                prune(store, 2)
        return load(sequence)

    monkeypatch.setattr(store, "load_snapshot", load_late)


@pytest.mark.parametrize("times", [1, 2, 20])
def test_what_a_running_pipeline_removes_before_it_is_read_is_not_damaged(store, monkeypatch, caplog, times):
    for sequence in (9, 10):
        store.save_snapshot(sequence, sample(sequence))
    pruning(store, monkeypatch, times)
    assert newest_whole(store).commit.sequence == 10 + 2 * times
    assert not caplog.records


def test_what_is_listed_and_cannot_be_read_is_told(store, tmp_path, caplog):
    for sequence in (9, 10):
        store.save_snapshot(sequence, sample(sequence))
    (lost,) = (tmp_path / "snapshots").glob("*10.snapshot")
    lost.unlink()
    lost.symlink_to(tmp_path / "nowhere")
    assert newest_whole(store).commit.sequence == 9
    (told,) = caplog.records
    assert (told.message, told.sequence) == ("snapshot is damaged, trying the one before it", 10)
    assert "No such file" in told.reason


@pytest.mark.parametrize("keep", [2, 3, 9])
def test_pruning_keeps_the_newest(store, keep):
    for sequence in (1, 2, 10, 11):
        store.save_snapshot(sequence, b"")
    prune(store, keep)
    assert store.snapshots() == [1, 2, 10, 11][-keep:]
