"""Topics are picked by their whole names, counted, and must stay as they were."""

import pytest

from speciate.errors import ConfigError, SourceError, StateMismatchError
from speciate_plugins.kafka.layout import Selection, check_layout, compare_layouts

COUNTS = {"a": 2, "ab": 2, "b": 3, "__a": 9, "B": 1}


@pytest.mark.parametrize(
    ("topics", "picked"),
    [
        (["b", "a"], {"a": 2, "b": 3}),
        (["a", "x"], {"a": 2}),
        ("a", {"a": 2}),
        ("a|b", {"a": 2, "b": 3}),
        ("a.*", {"a": 2, "ab": 2}),
        (".*", {"a": 2, "ab": 2, "b": 3, "B": 1}),
        ("(?i)b", {"b": 3, "B": 1}),
        ("x", {}),
    ],
)
def test_topics_are_picked_by_their_whole_names(topics: list[str] | str, picked: dict[str, int]):
    assert Selection(topics).pick(COUNTS) == picked


def test_two_lists_in_another_order_are_the_same_selection():
    assert str(Selection(["b", "a"])) == str(Selection(["a", "b"])) == "topics = ['a', 'b']"
    assert str(Selection("a|b")) == "pattern = 'a|b'"


def test_the_number_of_tasks_is_that_of_partitions():
    assert check_layout(Selection(["a", "b"]), {"a": 3, "b": 3}, together=False) == 3
    assert check_layout(Selection(["a", "b"]), {"a": 3, "b": 4}, together=True) == 1


@pytest.mark.parametrize(
    ("topics", "counts", "error", "words"),
    [
        (["a", "b"], {"a": 1}, ConfigError, r"topics = \['a', 'b'\]: there is no topic 'b'.*create it"),
        ("x.*", {}, ConfigError, r"pattern = 'x\.\*' fits no topic.*correct the pattern"),
        (["a", "b"], {"a": 1, "b": 2}, ConfigError, r"'a' has 1, 'b' has 2: make them anew"),
    ],
)
def test_topics_that_do_not_do(topics: list[str] | str, counts: dict[str, int], error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        check_layout(Selection(topics), counts, together=False)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("after", "error", "words"),
    [
        ({}, SourceError, "topic 'a', 'b' was deleted"),
        ({"a": 2}, SourceError, "topic 'b' was deleted"),
        ({"a": 2, "b": 3}, StateMismatchError, "'b' had 2 partitions and now has 3.*`speciate refold CONFIG`"),
    ],
)
def test_topics_that_change(after: dict[str, int], error: type[Exception], words: str, *, together: bool):
    with pytest.raises(error, match=words):
        compare_layouts(Selection("."), {"a": 2, "b": 2}, after, together=together)


def test_a_new_topic_must_be_like_the_others_unless_one_task_has_them_all():
    before, after = {"a": 2}, {"a": 2, "b": 3}
    compare_layouts(Selection("."), before, {"a": 2, "b": 2}, together=False)
    compare_layouts(Selection("."), before, after, together=True)
    with pytest.raises(ConfigError, match="'b' has 3"):
        compare_layouts(Selection("."), before, after, together=False)
