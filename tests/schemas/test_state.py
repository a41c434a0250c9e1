"""What is kept: head, task, commit and snapshot come back exactly, whatever the density put into them."""

from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speciate_schemas import Array, CategoryState, Commit, StoredRecord, Tally, TaskState, decode, encode
from speciate_schemas.state import Stored
from strategies import STRATEGIES, positions


def test_the_union_holds_every_stored_type() -> None:
    assert set(get_args(StoredRecord)) == set(Stored.__subclasses__())


@given(STRATEGIES[TaskState])
def test_nested_arrays_are_views_of_the_snapshot(state: TaskState) -> None:
    """A snapshot may be larger than half the memory, so loading it must not copy it."""
    encoded = encode(state)
    whole = np.frombuffer(encoded, np.uint8)
    for category in decode(encoded, TaskState).head.categories:
        for array in category.arrays.values():
            assert not array.numpy().size or np.shares_memory(array.numpy(), whole)


@given(st.lists(st.floats(), min_size=1, max_size=5))
def test_arrays_keep_every_bit_even_nan_in_both_formats(values: list[float]) -> None:
    category = CategoryState(id=0, label=None, known=True, count=1, arrays={"a": Array.of(np.array(values))})
    for form in ("msgpack", "json"):
        back = decode(encode(category, form), CategoryState, form)
        assert back.arrays["a"].numpy().tobytes() == np.array(values).tobytes()


@given(positions, st.none() | positions)
def test_a_position_comes_back_as_the_tuple_it_was(end: tuple, source: tuple | None) -> None:
    commit = Commit(sequence=0, source=source, answers=end, dead_letters=(), tally=Tally())
    back = decode(encode(commit), StoredRecord)
    assert (back.source, back.answers) == (source, end)
    assert isinstance(back.answers, tuple)
    assert [type(part) for part in back.answers] == [type(part) for part in end]


@pytest.mark.parametrize("field", ["sequence", "answers", "dead_letters", "tally"])
def test_a_commit_without_one_of_its_parts_is_none(field: str) -> None:
    commit = Commit(sequence=1, source=(1,), answers=(2,), dead_letters=(3,), tally=Tally())
    tree = msgspec.to_builtins(commit)
    del tree[field]
    with pytest.raises(msgspec.DecodeError, match=field):
        decode(encode(tree), Commit)


def test_a_tally_starts_at_nothing() -> None:
    assert decode(b'{"type":"tally.v1"}', StoredRecord, "json") == Tally()
    assert not any(getattr(Tally(), field) for field in Tally.__struct_fields__)
