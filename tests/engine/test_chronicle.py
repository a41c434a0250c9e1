"""The chronicle goes with the head: what it says of the categories is what the answers say, and undone it is undone.

That it does not depend on batches, stops or learning again is tested where the state is: in test_task.
"""

from collections import Counter

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CENTRES, bits, feature, make_head, record

from speciate import chronicle, undoing
from speciate.chronicle import TRAIL, Album
from speciate.exemplars import Pictures, priority
from speciate.head import Head
from speciate.task import Task
from speciate.timeline import BIRTHS, EVENTS, SIZE
from speciate.universe import Universe
from speciate_schemas import (
    AlbumOptions,
    Assignment,
    ForgetCategory,
    ImageEvent,
    MergeCategories,
    RenameCategory,
    TaskState,
    UndoLast,
    decode,
    encode,
)

MERGE = MergeCategories(id="m", keep=0, absorb=1)
choices = st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 2)), min_size=1, max_size=80)


def make_task(options=None, pictures=None, *, per_stream=False):
    return Task(
        Universe(make_head(), per_stream=per_stream),
        duplicate_window=0,
        locate=str,
        album=Album(options, pictures),
    )


def restored(task, state, options=None):
    """A task that goes on from a state of this one."""
    return Task.from_state(
        state,
        plugins=None,
        per_stream=False,
        duplicate_window=0,
        locate=str,
        tally=task.tally,
        album=Album(options),
    )


def as_records(drawn, first=0, **more):
    vectors = [CENTRES[centre] + np.array([shift, 0, 0]) / 3 for centre, shift in drawn]
    return [record(first + n, feature(f"e{first + n}", v, **more)) for n, v in enumerate(vectors)]


def apply(task, control):
    [outcome] = task.fold([record(task.sequence, control)])
    return outcome.answer


def kept(state):
    """The records that stand for a category."""
    return state.exemplars.sequences if state.exemplars else []


def traces(task):
    return {number: trace.state() for number, trace in task.chronicle("").traces.items()}


@settings(deadline=None, max_examples=30)
@given(choices)
def test_it_says_what_the_answers_say(drawn):
    task = make_task(AlbumOptions(exemplars=4))
    records = as_records(drawn, time=5.0)
    answers = [outcome.answer for outcome in task.fold(records)]
    found = task.chronicle("")
    assert list(found.traces) == [one.id for one in task.universe.head.categories]
    for number, trace in found.traces.items():
        got = [one for one in answers if one.category == number]
        born = [one.sequence for one in got if one.birth]
        assert (trace.born, trace.born_time) == ((born[0], 5.0) if born else (None, None))
        assert trace.seen == len(got) == sum(trace.activity.values())
        assert trace.last_sequence == (got[-1].sequence if got else None)
        chosen = sorted((one.sequence for one in got), key=priority)[:4]
        assert [one.sequence for one in trace.exemplars] == chosen
        assert [one.id for one in trace.exemplars] == [f"e{sequence}" for sequence in chosen]
    counts = found.timeline.state().counts.numpy()
    assert counts[:, EVENTS].sum() == len(answers)
    assert counts[:, BIRTHS].sum() == sum(one.birth for one in answers)
    assert counts[-1, SIZE] == task.universe.size


@settings(deadline=None, max_examples=30)
@given(
    choices, st.sampled_from([MERGE, ForgetCategory(id="f", category=0), RenameCategory(id="r", category=0, label="x")])
)
def test_undone_at_once_it_was_never_done(drawn, change):
    task = make_task(AlbumOptions(exemplars=4))
    task.fold(as_records(drawn))
    before = traces(task)
    apply(task, change)
    if not isinstance(change, RenameCategory):
        assert traces(task) != before
    apply(task, UndoLast(id="u"))
    assert bits(traces_as_list(task)) == bits(list(before.values()))
    assert list(traces(task)) == list(before)


def traces_as_list(task):
    return list(traces(task).values())


@settings(deadline=None, max_examples=30)
@given(choices, choices, st.booleans())
def test_a_merge_is_the_chronicle_of_both_and_what_came_since_goes_where_the_head_puts_it(drawn, later, saved):
    task = make_task(AlbumOptions(exemplars=6))
    task.fold(as_records(drawn))
    before = traces(task)
    apply(task, MERGE)
    merged = traces(task)[0]
    assert merged.seen == before[0].seen + before[1].seen
    assert kept(merged) == sorted(kept(before[0]) + kept(before[1]), key=priority)[:6]
    answers = [outcome.answer for outcome in task.fold(as_records(later, task.sequence))]
    if saved:
        task = restored(task, decode(encode(task.state()), TaskState), AlbumOptions(exemplars=6))
    counts = {one.id: one.count for one in task.universe.head.categories}
    apply(task, UndoLast(id="u"))
    after = traces(task)
    got = sum(one.category == 0 for one in answers)
    shares = {one.id: one.count for one in task.universe.head.categories}
    assert shares[0] + shares[1] == counts[0]
    assert after[0].seen + after[1].seen == before[0].seen + before[1].seen + got
    for number in (0, 1):
        # The head's counts have the support set's events on top, which never change.
        support = 4
        assert after[number].seen == shares[number] - support
        assert len(kept(after[number])) <= 6
        assert set(kept(after[number])) <= {*range(task.sequence)}


@settings(deadline=None, max_examples=30)
@given(choices, choices)
def test_a_merge_that_was_undone_leaves_fair_samples(drawn, later):
    """Those of the lowest priority among all that each of the two got, before the merge and since."""
    few, all_of_them = (make_task(AlbumOptions(exemplars=number)) for number in (3, 1000))
    for task in (few, all_of_them):
        task.fold(as_records(drawn))
        apply(task, MERGE)
        task.fold(as_records(later, task.sequence))
        apply(task, UndoLast(id="u"))
    for number, trace in traces(all_of_them).items():
        assert len(kept(trace)) == trace.seen
        assert kept(traces(few)[number]) == kept(trace)[:3]


def test_a_merge_that_stands_is_not_undone_here_either(monkeypatch):
    monkeypatch.setattr(undoing, "MOST_SINCE", 3)
    monkeypatch.setattr(chronicle, "MOST_SINCE", 3)
    task = make_task()
    apply(task, MERGE)
    task.fold(as_records([(0, 0)] * 4, 1))
    assert task.state().chronicles[""].changed is None
    assert apply(task, UndoLast(id="u")).error == "UnknownCategoryError"
    assert 1 not in traces(task)


def test_the_trail_keeps_the_first_place_and_the_newest(monkeypatch):
    task = make_task()
    places = []
    monkeypatch.setattr(Head, "centre", lambda _, category: np.array([float(len(places)), 0.0, 0.0]))
    for number in range(4**3):
        places.append(number)
        task.fold(as_records([(0, 0)], number))
    trace = task.chronicle("").traces[0]
    assert trace.trail_sequences == [0, 3, 15, 63]
    assert [one[0] for one in trace.trail] == [1, 4, 16, 64]
    for number in range(64, 64 + TRAIL):
        trace.mark(number, np.zeros(3), TRAIL)
    assert trace.trail_sequences[0] == 0
    assert len(trace.trail_sequences) == len(trace.trail) == TRAIL
    assert trace.trail_sequences[-1] == 63 + TRAIL


def test_with_more_categories_each_keeps_fewer():
    album = Album()
    one = album.bytes_of(3, 8)
    task = make_task(AlbumOptions(exemplars=8, bytes=3 * one))
    near = [(n % 2, 0) for n in range(40)]
    task.fold(as_records(near))
    found = task.chronicle("")
    assert {len(trace.exemplars) for trace in found.traces.values()} == {8}
    task.fold(as_records([(2, 0), (3, 0)], 40))
    assert len(found.traces) == 4
    sizes = Counter(len(trace.exemplars) for trace in found.traces.values())
    assert max(sizes) < 8
    assert sum(album.bytes_of(3, task.state().chronicles[""].capacity) for _ in found.traces) <= 3 * one
    for trace in list(found.traces.values())[:2]:
        mine = [n for n in range(40) if n % 2 == trace.id]
        assert [one.sequence for one in trace.exemplars] == sorted(mine, key=priority)[: len(trace.exemplars)]


@pytest.mark.parametrize("options", [AlbumOptions(exemplars=2), AlbumOptions(exemplars=0), AlbumOptions(exemplars=9)])
def test_it_goes_on_with_other_options(options):
    task = make_task(AlbumOptions(exemplars=4))
    task.fold(as_records([(0, 0)] * 10))
    again = restored(task, task.state(), options)
    again.fold(as_records([(0, 0)] * 10, 10))
    expected = sorted(range(20), key=priority)[: min(4, options.exemplars)]
    assert [one.sequence for one in again.chronicle("").traces[0].exemplars] == expected


def without_chronicles(state):
    """As a refold saves it: its records are numbered otherwise, so what there is to see begins anew."""
    return msgspec.structs.replace(state, chronicles={})


def test_a_state_that_was_learnt_anew_begins_a_chronicle():
    task = make_task()
    task.fold(as_records([(2, 0)] * 3))
    again = restored(task, without_chronicles(task.state()))
    assert list(again.chronicle("").traces) == [0, 1, 2]
    assert isinstance(again.fold(as_records([(2, 0)], 3))[0].answer, Assignment)
    assert again.chronicle("").traces[2].seen == 1


@pytest.mark.parametrize("change", [MERGE, ForgetCategory(id="f", category=1)])
def test_what_was_changed_before_a_state_was_learnt_anew_can_be_undone(change):
    task = make_task()
    task.fold(as_records([(2, 0)] * 3))
    apply(task, change)
    again = restored(task, without_chronicles(task.state()))
    apply(again, UndoLast(id="u"))
    assert list(again.chronicle("").traces) == [0, 1, 2]
    [outcome] = again.fold(as_records([(1, 0)], again.sequence))
    assert outcome.answer.category == 1
    assert again.chronicle("").traces[1].seen == 1


def test_it_goes_on_with_the_seed_it_began_with():
    task = make_task(AlbumOptions(exemplars=4, seed=3))
    task.fold(as_records([(0, 0)] * 10))
    again = restored(task, task.state(), AlbumOptions(exemplars=4, seed=8))
    for one in (task, again):
        one.fold(as_records([(0, 0)] * 10, 10))
    assert bits(again.state()) == bits(task.state())


def test_streams_with_heads_of_their_own_have_chronicles_of_their_own():
    task = make_task(per_stream=True)
    task.fold(as_records([(2, 0)] * 3, stream="north"))
    task.fold(as_records([(0, 0)] * 2, 3, stream="south"))
    assert {stream: sum(t.seen for t in one.traces) for stream, one in task.state().chronicles.items()} == {
        "north": 3,
        "south": 2,
    }
    assert task.chronicle("north").traces[2].born == 0


def test_images_leave_pictures_and_their_features():
    task = make_task(AlbumOptions(exemplars=4, pictures=2), Pictures(lambda event: event.id.encode()))
    records = []
    for number in range(9):
        one = record(number, ImageEvent(id=f"i{number}", image=memoryview(b"image")))
        one.features = np.array([0.0, 0.25, 0.0], np.float32)
        records.append(one)
    task.fold(records)
    [trace] = [one for one in task.state().chronicles[""].traces if one.seen]
    chosen = sorted(range(9), key=priority)[:4]
    assert trace.exemplars.sequences == chosen
    assert trace.exemplars.thumbnails == [f"i{n}".encode() for n in chosen[:2]] + [None, None]
    assert trace.exemplars.features.numpy().tolist() == [[0.0, 0.25, 0.0]] * 4
