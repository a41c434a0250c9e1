"""Sealed records: what comes back is what went in, or it is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate.errors import OutputError, StateDamagedError
from speciate.sealed import digest, load_sealed, save_sealed, seal, unseal
from speciate_schemas import Commit, HeadState, Tally
from strategies import STRATEGIES

commits, heads, tallies = STRATEGIES[Commit], STRATEGIES[HeadState], STRATEGIES[Tally]


@settings(deadline=None)
@given(commits, heads)
def test_records_come_back_in_order(commit, head):
    assert unseal(seal(commit, head), Commit, HeadState) == [commit, head]


@settings(deadline=None)
@given(tallies, tallies)
def test_equal_records_have_equal_bytes(one, other):
    assert (seal(one) == seal(other)) == (one == other)
    assert (digest(seal(one)) == digest(seal(other))) == (one == other)


@settings(deadline=None)
@given(commits, st.data())
def test_damage_anywhere_is_noticed(commit, data):
    sealed = bytearray(seal(commit, commit.tally))
    place = data.draw(st.integers(0, len(sealed) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "grow", "remove"]))
    if kind == "flip":
        sealed[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del sealed[place:]
    elif kind == "grow":
        sealed += data.draw(st.binary(min_size=1, max_size=20))
    else:
        del sealed[place]
    with pytest.raises(StateDamagedError):
        unseal(bytes(sealed), Commit, Tally)


@settings(deadline=None)
@given(commits)
def test_records_of_another_kind_number_or_order_are_refused(commit):
    with pytest.raises(StateDamagedError, match="does not hold what this version writes"):
        unseal(seal(commit), Tally)
    with pytest.raises(StateDamagedError, match="does not hold"):
        unseal(seal(commit.tally, commit), Commit, Tally)
    with pytest.raises(StateDamagedError, match=r"cut short|not a frame"):
        unseal(seal(commit), Commit, Tally)
    with pytest.raises(StateDamagedError, match="bytes too many"):
        unseal(seal(commit, commit.tally), Commit)


def test_files_are_replaced_whole_and_errors_name_them(tmp_path):
    path = tmp_path / "tally"
    for assigned in (1, 2):
        save_sealed(path, Tally(assigned=assigned))
        assert load_sealed(path, Tally) == Tally(assigned=assigned)
    assert [found.name for found in tmp_path.iterdir()] == ["tally"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateDamagedError, match=r"tally is damaged or not a saved state: .*cut short"):
        load_sealed(path, Tally)
    with pytest.raises(StateDamagedError, match=r"cannot read .*nothing: No such file"):
        load_sealed(tmp_path / "nothing", Tally)
    with pytest.raises(OutputError, match=r"cannot write .*missing"):
        save_sealed(tmp_path / "missing" / "tally", Tally())
