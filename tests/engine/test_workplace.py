"""The folder of a fit: kept for the same work, cleared for other work, used by one at a time."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speciate import workplace
from speciate.errors import ConfigError, OutputError, StateLockedError
from speciate.workplace import Workplace, remove_work

RECIPE = {"encoder": {"plugin": "x", "sizes": (1, 2)}, "training": None}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "m.part"


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def work_in(folder, recipe=None):
    return Workplace(folder, RECIPE if recipe is None else recipe)


def leave_work(folder):
    with work_in(folder) as work:
        work.note(["a", "b"])
        work.note(["c"])
        (work.trainer / "kept").write_text("dear")


def test_work_for_the_same_is_kept(folder):
    leave_work(folder)
    # The same said in another order, and with a list for a tuple.
    with work_in(folder, {"training": None, "encoder": {"sizes": [1, 2], "plugin": "x"}}) as work:
        assert work.seen(3) == ["a", "b", "c"]
        assert (work.trainer / "kept").read_text() == "dear"


@pytest.mark.parametrize("recipe", [{}, {**RECIPE, "training": {}}, {**RECIPE, "encoder": {"plugin": "y"}}])
def test_work_for_something_else_is_thrown_away(folder, recipe, caplog):
    caplog.set_level("INFO")
    leave_work(folder)
    with work_in(folder, recipe) as work:
        assert work.seen(3) == []
        assert list(work.trainer.iterdir()) == []
    assert "starting over" in caplog.text
    with work_in(folder) as work:
        assert work.seen(3) == [], "what was thrown away does not come back"


def test_a_first_time_is_no_starting_over(folder, caplog):
    caplog.set_level("INFO")
    with work_in(folder) as work:
        assert work.seen(9) == []
    assert caplog.text == ""


def test_what_was_noted_but_never_taken_in_is_forgotten(folder):
    leave_work(folder)
    with work_in(folder) as work:
        assert work.seen(2) == ["a", "b"]
        work.note(["d"])
    with work_in(folder) as work:
        assert work.seen(9) == ["a", "b", "d"]


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=60))
def test_damaged_notes_are_some_other_notes(tmp_path_factory, damage):
    """Whoever compares them finds them changed, and starts over."""
    folder = tmp_path_factory.mktemp("damaged")
    leave_work(folder)
    (folder / "seen").write_bytes(damage)
    with work_in(folder) as work:
        assert len(work.seen(2)) <= 2


def test_half_a_clearing_is_done_again(folder):
    """The recipe is written last: whatever was cleared in part is cleared again."""
    leave_work(folder)
    (folder / "recipe.json").unlink()
    with work_in(folder) as work:
        assert work.seen(3) == []
        assert list(work.trainer.iterdir()) == []


def test_only_one_at_a_time(folder):
    with work_in(folder) as work:
        work.note(["a"])
        for recipe in (RECIPE, {"other": 1}):
            with pytest.raises(StateLockedError, match="in use by another process") as caught, work_in(folder, recipe):
                pass
            assert str(folder) in str(caught.value)
        assert work.seen(1) == ["a"], "who has to wait touches nothing"
    with work_in(folder):
        pass


def test_another_process_has_to_wait_too_and_a_dead_one_holds_nothing(folder):
    script = "import sys, pathlib; from speciate.workplace import Workplace\n"
    script += "Workplace(pathlib.Path(sys.argv[1]), {}).__enter__(); print('in', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(StateLockedError), work_in(folder):
            pass
        other.kill()
    with work_in(folder):
        pass


def test_a_refusal_keeps_no_file_open(folder):
    def open_files():
        return len(list(Path("/proc/self/fd").iterdir()))

    with work_in(folder):
        before = open_files()
        for _ in range(5):
            with pytest.raises(StateLockedError), work_in(folder):
                pass
        assert open_files() == before


def test_when_the_work_is_done_nothing_of_it_stays(folder):
    with work_in(folder) as work:
        work.note(["a"])
        remove_work(folder)
    assert list(folder.parent.iterdir()) == []


def test_a_folder_of_somebody_else_is_neither_used_nor_removed(folder):
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="is in the way"), work_in(folder):
        pass
    remove_work(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_throwing_away_that_was_cut_off_is_done_again(folder, monkeypatch):
    """What is left of other work must never pass for ours."""
    with work_in(folder) as work:
        (work.trainer / "old").touch()
        work.note(["a"])
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", full_disk)
            with pytest.raises(OutputError):
                work.clear()
    with work_in(folder) as work:
        assert not (work.trainer / "old").exists()
        assert work.seen(9) == []


@pytest.mark.parametrize(
    "action", [lambda work: work.note(["a"]), lambda work: work.seen(1), lambda work: work.clear()]
)
def test_a_full_disk_is_the_worlds_fault(folder, monkeypatch, action):
    with work_in(folder) as work:
        monkeypatch.setattr(workplace, "sync_file", full_disk)
        monkeypatch.setattr(workplace, "write_atomically", full_disk)
        with pytest.raises(OutputError, match="No space left"):
            action(work)


def test_a_folder_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"Not a directory|File exists") as caught, work_in(tmp_path / "file" / "x"):
        pass
    assert str(tmp_path / "file" / "x") in str(caught.value)
