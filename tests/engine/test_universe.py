"""A universe: with one head a stream, each stream lives as if it were alone; with one head for all, nothing changes."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import CENTRES, bits, feature, inputs, make_head, record, split

from speciate.errors import UnknownCategoryError
from speciate.head import Head
from speciate.plugins import installed
from speciate.task import Task
from speciate.universe import Universe
from speciate_schemas import Assignment, ControlApplied, Rejection, RenameCategory, TaskState, decode, encode

STREAMS = ("", "north", "south")
WINDOW = 1000
"""Wider than any script: what is forgotten of one stream would depend on the others."""

scripts = st.lists(st.tuples(st.sampled_from(STREAMS), inputs()), max_size=25)
cuts = st.lists(st.integers(1, 30), max_size=4)


def in_stream(name, drawn):
    """The drawn input as one of a stream; what is too damaged to be an event belongs to none."""
    event = drawn.get("event")
    return drawn if event is None else {**drawn, "event": msgspec.structs.replace(event, stream=name)}


def make_task(*, per_stream=True):
    universe = Universe(make_head(), per_stream=per_stream, plugins=installed())
    return Task(universe, duplicate_window=WINDOW, locate=lambda sequence: f"dead#{sequence}")


def resumed(task, *, per_stream=True):
    state = decode(encode(task.state()), TaskState)
    locate = {"locate": lambda sequence: f"dead#{sequence}", "tally": task.tally}
    return Task.from_state(state, plugins=installed(), per_stream=per_stream, duplicate_window=WINDOW, **locate)


def records_of(script, *, opened=False):
    """Records of all streams; `opened`: each begins with an event that any head takes."""
    begun = [(name, {"event": feature(f"first of {name}", CENTRES[0])}) for name in STREAMS] if opened else []
    return [record(place, **in_stream(name, drawn)) for place, (name, drawn) in enumerate([*begun, *script])]


def folded(task, records, places=()):
    return [outcome for batch in split(records, places) for outcome in task.fold(batch)]


def placeless(outcome):
    """An outcome without the number its input has among those of all streams."""
    return [
        None if part is None else bits(msgspec.structs.replace(part, sequence=0, **gone))
        for part, gone in (
            (outcome.answer, {"dead_letter": ""} if isinstance(outcome.answer, Rejection) else {}),
            (outcome.dead_letter, {}),
        )
    ]


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one.answer, Rejection) and one.answer.error == "DuplicateError":
            one, other = (  # noqa: PLW2901
                outcome._replace(
                    answer=msgspec.structs.replace(outcome.answer, message=""),
                    dead_letter=msgspec.structs.replace(outcome.dead_letter, message=""),
                )
                for outcome in (one, other)
            )
        assert placeless(one) == placeless(other)


def whole(state, name):
    """A stream's head as if it were the only one."""
    return msgspec.structs.replace(state.streams[name], shared=state.head.shared)


@settings(deadline=None, max_examples=40)
@given(scripts, cuts)
def test_each_stream_is_answered_and_learnt_as_if_it_were_alone(script, places):
    records = records_of(script, opened=True)
    together = make_task()
    outcomes = folded(together, records, places)
    state = together.state()
    assert list(state.streams) == list(STREAMS)
    for name in STREAMS:
        ours = [place for place, one in enumerate(records) if one.event is not None and one.event.stream == name]
        alone = make_task(per_stream=False)
        same([outcomes[place] for place in ours], folded(alone, [records[place] for place in ours]))
        assert bits(whole(state, name)) == bits(alone.state().head)


@settings(deadline=None, max_examples=40)
@given(scripts, cuts, cuts)
def test_batches_do_not_show(script, some, others):
    one, other = make_task(), make_task()
    records, again = records_of(script), records_of(script)
    assert [bits(out.answer) for out in folded(one, records, some)] == [
        bits(out.answer) for out in folded(other, again, others)
    ]
    assert bits(one.state()) == bits(other.state())


@settings(deadline=None, max_examples=40)
@given(scripts, st.integers(0, 25), cuts)
def test_going_on_from_the_bytes_of_a_state_is_as_if_nothing_had_been(script, stop, places):
    through, stopped = make_task(), make_task()
    expected = folded(through, records_of(script), places)
    records = records_of(script)
    before = folded(stopped, records[:stop])
    again = resumed(stopped)
    assert bits(again.state()) == bits(stopped.state())
    behind = folded(again, records[stop:])
    assert [bits(out.answer) for out in [*before, *behind]] == [bits(out.answer) for out in expected]
    assert bits(again.state()) == bits(through.state())
    assert again.tally == through.tally


@settings(deadline=None, max_examples=60)
@given(scripts, cuts, cuts)
def test_folding_answers_again_gives_the_state_they_were_made_with(script, some, others):
    first, again = make_task(), make_task()
    outcomes = folded(first, records_of(script), some)
    answers = [outcome.answer for outcome in outcomes]
    records = records_of(script)
    for batch in split(list(zip(records, answers, strict=True)), others):
        again.refold([one for one, _ in batch], [answer for _, answer in batch])
    assert bits(again.state()) == bits(first.state())
    assert again.tally == first.tally
    following = records_of([(name, {"event": feature("next", CENTRES[1])}) for name in STREAMS])
    for number, one in enumerate(following):
        one.sequence = len(script) + number
    assert [bits(out.answer) for out in again.fold(following)] == [bits(out.answer) for out in first.fold(following)]


def test_a_stream_whose_first_event_no_head_takes_is_there_all_the_same():
    """It was given a head to be refused by: whoever folds the refusal again must know the stream, too."""
    far = feature("far", (1e200, 0.0, 0.0), stream="cam")
    rename = RenameCategory(id="r", category=0, label="x", stream="cam")
    first, again = make_task(), make_task()
    answers = [out.answer for out in first.fold([record(0, far), record(1, rename)])]
    assert [type(answer) for answer in answers] == [Rejection, ControlApplied]
    assert answers[0].stage == "head"
    again.refold([record(0, far), record(1, rename)], answers)
    assert bits(again.state()) == bits(first.state())


def test_what_streams_share_is_stored_once():
    task = make_task()
    task.fold([record(n, feature(n, CENTRES[n % 5], stream=f"s{n}")) for n in range(8)])
    state = task.state()
    assert state.head.shared
    assert len(state.streams) == 8
    assert all(one.shared == {} for one in state.streams.values())
    assert bits(state.head) == bits(make_head().state()), "what a new stream begins with is never learnt from"


@pytest.mark.parametrize("seen", [(), ("north",)])
def test_a_control_event_of_a_stream_never_seen_is_rejected_and_makes_no_stream(seen):
    task = make_task()
    task.fold([record(n, feature(n, stream=name)) for n, name in enumerate(seen)])
    rename = RenameCategory(id="r", category=0, label="x", stream="south")
    (outcome,) = task.fold([record(len(seen), rename)])
    assert isinstance(outcome.answer, Rejection)
    assert (outcome.answer.stage, outcome.answer.error) == ("control", "UnknownCategoryError")
    assert "'south' has no categories" in outcome.answer.message
    assert list(task.state().streams) == list(seen)


def test_a_control_event_changes_its_own_stream_alone():
    task = make_task()
    events = [feature(0, stream="north"), feature(0, stream="south")]
    task.fold([record(n, event) for n, event in enumerate(events)])
    before = task.state().streams
    (outcome,) = task.fold([record(2, RenameCategory(id="r", category=0, label="x", stream="south"))])
    assert isinstance(outcome.answer, ControlApplied)
    assert outcome.answer.head_version == 1
    after = task.state().streams
    assert bits(after["north"]) == bits(before["north"])
    assert [one.label for one in after["south"].categories] == ["x", "b"]


def test_births_of_streams_are_numbered_by_each_of_them():
    task = make_task()
    answers = [task.fold([record(n, feature(n, CENTRES[3], stream=name))])[0].answer for n, name in enumerate("abc")]
    assert all(isinstance(answer, Assignment) and answer.birth for answer in answers)
    assert [answer.category for answer in answers] == [2, 2, 2]


def test_one_head_for_all_keeps_no_streams():
    task = make_task(per_stream=False)
    task.fold([record(n, feature(n, stream=name)) for n, name in enumerate(STREAMS)])
    assert task.state().streams == {}
    universe = task.universe
    assert universe.of("north") is universe.of("never seen") is universe.existing("never seen") is universe.head


def test_size_and_memory_are_those_of_all_heads():
    plain = Universe(make_head())
    assert (plain.size, plain.nbytes) == (plain.head.size, plain.head.nbytes)
    universe = Universe(make_head(), per_stream=True, plugins=installed())
    assert (universe.size, universe.nbytes) == (0, 0)
    heads = [universe.of(name) for name in STREAMS]
    assert [universe.of(name) for name in STREAMS] == heads
    assert universe.size == 2 * len(STREAMS)
    assert universe.nbytes == sum(head.nbytes for head in heads) > 0
    with pytest.raises(UnknownCategoryError, match="no event of it has come yet"):
        universe.existing("another")
    assert all(isinstance(head, Head) for head in universe.heads)
