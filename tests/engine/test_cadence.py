"""When a commit is due, and when a snapshot is: in exact time."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate import cadence
from speciate.cadence import Cadence
from speciate_schemas import CommitOptions

OPTIONS = CommitOptions(events=10, interval_ms=500.0, snapshot_events=25)


@pytest.fixture
def now(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cadence, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


def make(**more) -> Cadence:
    return Cadence(OPTIONS, **{"committed": 40, "snapshot": 30, "always_snapshot": False, **more})


def test_nothing_new_is_never_due(now):
    ours = make(snapshot=40)
    now[0] += 1e6
    assert ours.time_left(40) is None
    assert ours.time_left(35) is None, "what is folded again was committed before"
    assert not ours.due(40)


def test_a_commit_is_due_after_so_many_events_or_so_much_time(now):
    ours = make()
    assert not ours.due(49)
    assert ours.due(50)
    now[0] += 0.4
    assert ours.time_left(41) == pytest.approx(0.1)
    assert not ours.due(41)
    now[0] += 0.1
    assert ours.time_left(41) == 0.0
    assert ours.due(41)
    ours.note(41, snapshot=False)
    assert not ours.due(41)
    assert ours.time_left(42) == pytest.approx(0.5)


def test_a_snapshot_is_due_after_so_many_events_but_not_while_one_is_written(now):
    ours = make()
    assert not ours.snapshot_due(54, saving=False)
    assert ours.snapshot_due(55, saving=False)
    assert not ours.snapshot_due(55, saving=True)
    ours.note(55, snapshot=False)
    assert ours.snapshot_due(55, saving=False), "a commit without a snapshot leaves it due"
    ours.note(55, snapshot=True)
    assert not ours.snapshot_due(55, saving=False)
    assert not ours.unsaved(55)
    assert ours.unsaved(56)


def test_what_is_committed_is_saved_after_a_while_even_if_nothing_more_comes(now):
    ours = make()
    assert ours.time_left(40) == pytest.approx(60.0)
    now[0] += 59.9
    assert not ours.due(40)
    assert not ours.snapshot_due(41, saving=False)
    now[0] += 0.1
    assert ours.due(40)
    assert ours.snapshot_due(41, saving=False), "with the next commit just as well"
    assert not ours.snapshot_due(40, saving=True)
    ours.note(40, snapshot=False)
    assert ours.time_left(40) == pytest.approx(0.5), "while another is written one does not ask without end"
    now[0] += 0.5
    ours.note(40, snapshot=True)
    assert ours.time_left(40) is None
    now[0] += 1e6
    assert not ours.snapshot_due(40, saving=False), "what is saved is not saved again"


def test_where_the_input_cannot_be_read_again_every_commit_has_its_snapshot(now):
    assert make(always_snapshot=True).snapshot_due(41, saving=True)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.floats(0.0, 0.4)), max_size=60))
def test_no_more_than_a_batch_beyond_the_limits_is_ever_uncommitted(steps):
    now, sequence = [0.0], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cadence, "time", SimpleNamespace(perf_counter=lambda: now[0]))
        ours, committed = Cadence(OPTIONS, committed=0, snapshot=0, always_snapshot=False), (0, 0.0)
        for events, seconds in steps:
            sequence, now[0] = sequence + events, now[0] + seconds
            overdue = sequence - committed[0] >= 10 or now[0] - committed[1] >= 0.5
            assert ours.due(sequence) == (sequence > committed[0] and overdue)
            if ours.due(sequence):
                ours.note(sequence, snapshot=ours.snapshot_due(sequence, saving=False))
                committed = sequence, now[0]
            assert sequence - committed[0] < 10
