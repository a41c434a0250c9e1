"""The audience: nothing that was answered goes uncounted, what is kept is bounded, and whose it is is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate import audience as audiences
from speciate.audience import MOST_NEWS, MOST_OTHERS, Audience
from speciate.outcomes import Outcome
from speciate_schemas import Assignment, ControlApplied, DeadLetter, Rejection, UndoLast
from speciate_schemas.page import Told


def outcome(kind, sequence):
    named = {"id": str(sequence), "stream": "", "sequence": sequence}
    failed = {"stage": "head", "error": "FeatureError", "message": "bad"}
    if kind == "refused control":
        return Outcome(Rejection(**named, **{**failed, "stage": "control"}, dead_letter=""))
    if kind == "rejection":
        letter = DeadLetter(**named, **failed, origin="", original=memoryview(b"x"))
        return Outcome(Rejection(**named, **failed, dead_letter=""), letter)
    if kind == "control":
        return Outcome(ControlApplied(**named, control=UndoLast(id="u"), head_version=0))
    if kind == "forwarded":
        return Outcome(DeadLetter(**named, **failed, origin="", original=memoryview(b"x")))
    decided = {"log_evidence": 0.0, "margin": None, "probability": 1.0, "drift": None, "head_version": 0}
    return Outcome(Assignment(**named, category=0, label=None, birth=kind == "birth", **decided))


kinds = st.lists(
    st.sampled_from(["birth", "control", "refused control", "rejection", "assignment", "assignment", "forwarded"]),
    max_size=60,
)


@given(st.lists(st.tuples(kinds, st.integers(0, 3), st.booleans()), max_size=12))
def test_every_answer_is_told_or_counted_and_the_newest_are_told(batches):
    audience, sequence, since = Audience(), 0, []
    for batch, task, taken in [*batches, ([], 0, True)]:
        outcomes = [outcome(kind, sequence + place) for place, kind in enumerate(batch)]
        sequence += len(batch)
        audience.note(outcomes, task)
        since += [(kind, Told(task, one.answer)) for kind, one in zip(batch, outcomes, strict=True)]
        if not taken:
            continue
        news = audience.take()
        for kind, found, most in (
            ("birth", news.births, MOST_NEWS),
            ("control", news.controls, MOST_NEWS),
            ("rejection", news.rejections, MOST_OTHERS),
        ):
            assert found == [one for other, one in since if other.removeprefix("refused ") == kind][-most:]
        assert len(news.assignments) <= MOST_OTHERS
        numbers = [one.answer.sequence for one in news.assignments]
        assert numbers == sorted(numbers)
        if since and since[-1][0] == "assignment":
            assert news.assignments[-1] == since[-1][1]
        assert sum(map(len, news[:-1])) + news.skipped == len(since)
        since = []
    assert audience.answered == sequence


@given(kinds, kinds)
def test_what_is_noted_while_somebody_takes_is_told_or_counted_once(before, meanwhile):
    audience, taken = Audience(), audiences._taken
    audience.note([outcome(kind, place) for place, kind in enumerate(before)], 0)
    batches = [[outcome(kind, len(before) + place) for place, kind in enumerate(meanwhile)]]

    def noting(kept):
        if batches:
            audience.note(batches.pop(), 0)
        return taken(kept)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audiences, "_taken", noting)
        found = [audience.take(), audience.take()]
    assert sum(sum(map(len, news[:-1])) + news.skipped for news in found) == len(before) + len(meanwhile)


def test_nobody_who_takes_is_no_burden():
    audience = Audience()
    for start in range(0, 3000, 100):
        batch = [outcome(("birth", "control", "rejection", "assignment")[n % 4], start + n) for n in range(100)]
        audience.note(batch, 0)
    news = audience.take()
    assert list(map(len, news[:-1])) == [MOST_NEWS, MOST_NEWS, MOST_OTHERS, MOST_OTHERS]
    assert news.births[-1].answer.sequence == 2996
    assert audience.controls == 750
    assert not any(map(len, audience.take()[:-1]))


def test_bad_inputs_do_not_push_out_the_answer_to_a_control_event():
    audience = Audience()
    audience.note([outcome("refused control", 0)], 2)
    audience.note([outcome("rejection", 1 + n) for n in range(500)], 1)
    news = audience.take()
    assert [(one.task, one.answer.sequence) for one in news.controls] == [(2, 0)]
    assert {one.task for one in news.rejections} == {1}
    assert audience.controls == 0, "nothing was changed"
