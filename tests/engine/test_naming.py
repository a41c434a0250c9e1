"""A name is whatever can be read. What was answered before is not judged again."""

import pytest
from test_chronicle import apply, make_task
from worlds import record

from speciate.errors import LabelError
from speciate.naming import check_name
from speciate_schemas import ControlApplied, ForgetCategory, Rejection, RenameCategory, decode, encode

NONE = [(" ", "nothing that can be seen"), ("\u200b", "nothing that can"), ("a\x1b[2J", "control characters")]


def named(label):
    return RenameCategory(id="r", category=1, label=label)


@pytest.mark.parametrize("label", ["pallet jack", "🚗", "שלום", "a\u202eb", "<script>"])
def test_a_name_is_whatever_can_be_read(label):
    check_name(named(label))
    check_name(ForgetCategory(id="f", category=1))


@pytest.mark.parametrize(("label", "wanted"), NONE)
def test_a_name_that_nobody_can_read_or_a_terminal_obeys_is_refused(label, wanted):
    with pytest.raises(LabelError, match=wanted):
        check_name(named(label))
    task = make_task()
    answer = apply(task, named(label))
    assert isinstance(answer, Rejection)
    assert (answer.stage, answer.error) == ("control", "LabelError")
    assert wanted in answer.message
    assert [one.label for one in task.universe.head.categories] == ["a", "b"]


@pytest.mark.parametrize(("label", "_wanted"), NONE)
def test_one_that_was_answered_under_other_rules_is_still_read_and_folded_again(label, _wanted):
    control = named(label)
    answer = ControlApplied(id="r", stream="", sequence=0, control=control, head_version=0)
    task = make_task()
    task.refold([record(0, control)], [decode(encode(answer), ControlApplied)])
    assert [one.label for one in task.universe.head.categories] == ["a", label]
