"""The folder of state: laws, damage, locks, full disks."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from speciate.conformance import check_store
from speciate.errors import OutputError, StateDamagedError, StateLockedError
from speciate_plugins.stores import controls
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
from speciate_schemas import Commit, Tally
from speciate_schemas.framing import pack

COMMIT = Commit(sequence=5, source=(0, "ü.log", 9), answers=(10,), dead_letters=(), tally=Tally(assigned=5))


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "some" / "state"


@pytest.fixture
def store(path):
    one = DirectoryStore(DirectoryOptions(path=str(path)))
    one.open(fresh=False)
    yield one
    one.close()


def test_it_keeps_the_laws(path) -> None:
    check_store(lambda: DirectoryStore(DirectoryOptions(path=str(path))))


def test_a_commit_with_any_bit_changed_is_no_commit(store, path) -> None:
    store.save_commit(COMMIT)
    whole = (path / "commit.json").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        (path / "commit.json").write_bytes(damaged)
        assert store.load_commit() is None
    for length in range(len(whole)):
        (path / "commit.json").write_bytes(whole[:length])
        assert store.load_commit() is None
    (path / "commit.json").write_bytes(whole)
    assert store.load_commit() == COMMIT


def test_the_lock_names_its_owner(store, path) -> None:
    with pytest.raises(StateLockedError, match=f"state {path} is in use by process {os.getpid()}"):
        DirectoryStore(DirectoryOptions(path=str(path))).open(fresh=True)
    program = (
        "from speciate_plugins.stores.directory import *\n"
        f"DirectoryStore(DirectoryOptions(path={str(path)!r})).open(fresh=False)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "StateLockedError" in result.stderr


def test_the_lock_of_a_killed_process_is_free(path) -> None:
    program = (
        "import os, signal\n"
        "from speciate_plugins.stores.directory import *\n"
        f"store = DirectoryStore(DirectoryOptions(path={str(path)!r}))\n"
        "store.open(fresh=False)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    store = DirectoryStore(DirectoryOptions(path=str(path)))
    store.open(fresh=False)
    store.close()


def test_leftovers_are_removed_and_strangers_kept(store, path) -> None:
    store.close()
    (path / "commit.json.tmp").write_bytes(b"half")
    (path / "snapshots" / f"{3:020d}.snapshot.tmp").write_bytes(b"half")
    strangers = ["snapshots/notes.txt", "thesis.tmp", "snapshots/thesis.tmp", "snapshots/my.snapshot.tmp"]
    for name in strangers:
        (path / name).write_text("mine")
    store.open(fresh=True)
    left = sorted(str(one.relative_to(path)) for one in path.rglob("*") if one.is_file())
    assert left == sorted(["lock", *strangers])
    assert store.snapshots() == []


def test_snapshots_are_named_by_their_number(store, path) -> None:
    store.save_snapshot(12, b"data")
    assert (path / "snapshots" / "00000000000000000012.snapshot").read_bytes() == b"data"
    assert store.describe() == str(path)
    with pytest.raises(StateDamagedError, match=r"cannot read .*13.snapshot: No such file"):
        store.load_snapshot(13)


def test_a_full_disk_keeps_what_was_there(store, path, monkeypatch) -> None:
    store.save_commit(COMMIT)
    store.save_snapshot(5, b"five")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OutputError, match=r"cannot write .*commit.json: No space left on device; mend that"):
            store.save_commit(Commit(sequence=6, source=None, answers=(), dead_letters=(), tally=Tally()))
        with pytest.raises(OutputError, match="No space left on device"):
            store.save_snapshot(6, b"six")
    assert store.load_commit() == COMMIT
    assert store.snapshots() == [5]
    assert not list(path.rglob("*.tmp"))


def test_a_path_that_cannot_be_a_folder_is_told(tmp_path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "file/below"):
        with pytest.raises(OutputError, match=f"cannot write {tmp_path / name}: (Not a directory|File exists)"):
            DirectoryStore(DirectoryOptions(path=str(tmp_path / name))).open(fresh=False)


def test_a_lock_that_cannot_be_written_is_told(path, monkeypatch) -> None:
    def full(descriptor: int, length: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "ftruncate", full)
    store = DirectoryStore(DirectoryOptions(path=str(path)))
    with pytest.raises(OutputError, match="Disk quota exceeded"):
        store.open(fresh=False)
    monkeypatch.undo()
    store.open(fresh=False)
    store.close()


@pytest.fixture
def log(path) -> Path:
    return path / "controls.log"


def test_control_events_are_an_event_log(store, log) -> None:
    assert [store.send(data) for data in (b"one", b"two")] == [0, 1]
    assert log.read_bytes() == pack(b"one") + pack(b"two")


def test_what_a_killed_sender_left_is_no_event_and_the_next_one_cuts_it(store, log) -> None:
    store.send(b"one")
    whole, torn = log.read_bytes(), pack(b"torn by a kill")
    for length in range(1, len(torn)):
        log.write_bytes(whole + torn[:length])
        assert store.sent(0) == [b"one"]
        assert store.sent(1) == []
        assert store.send(b"two") == 1
        assert store.sent(1) == [b"two"]
        assert log.read_bytes() == whole + pack(b"two")


def test_an_event_is_there_once_all_of_it_is(store, log) -> None:
    store.send(b"one")
    assert store.sent(0) == [b"one"]
    frame = pack(b"two")
    for place in range(len(frame)):
        assert store.sent(1) == []
        with log.open("ab") as file:
            file.write(frame[place : place + 1])
    assert store.sent(1) == [b"two"]


@pytest.mark.parametrize("place", [1, 5, 9, 13, 17])
def test_damage_between_events_keeps_the_numbers_of_the_others(store, log, place) -> None:
    for data in (b"one", b"two", b"three"):
        store.send(data)
    damaged = bytearray(log.read_bytes())
    damaged[len(pack(b"one")) + place] ^= 1
    log.write_bytes(damaged)
    first, second, third = store.sent(0)
    assert (first, third) == (b"one", b"three")
    assert second != b"two"
    assert store.send(b"four") == 3


def test_a_number_whose_event_was_taken_in_is_never_given_again(store, log) -> None:
    """Whatever damaged the end of the log, a new event must not take the place of an old one."""
    store.send(b"one")
    store.send(b"two")
    store.save_places([3, 4])
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(StateDamagedError, match=r"controls.log holds 1 control events, but 2 were taken in"):
        store.send(b"three")
    assert store.sent(0) == [b"one"]


def test_places_that_are_lost_are_told(store, path) -> None:
    """Without them every control event would take effect again."""
    assert store.load_places() == []
    store.send(b"one")
    assert store.load_places() == []
    store.save_places([3])
    (path / "places.json").unlink()
    for ask in (store.load_places, lambda: store.send(b"two")):
        with pytest.raises(StateDamagedError, match=r"places.json is missing, and .*controls.log holds control events"):
            ask()
    store.close()
    store.open(fresh=True)
    assert (store.load_places(), store.sent(0)) == ([], [])
    assert store.send(b"three") == 0


def test_a_fresh_start_needs_nothing_of_what_was(store, log) -> None:
    store.send(b"one")
    store.save_places([3])
    log.unlink()
    store.close()
    store.open(fresh=True)
    assert (store.load_places(), store.sent(0)) == ([], [])
    assert store.send(b"two") == 0


def test_a_lock_that_is_never_given_back_is_not_waited_for(store, log, monkeypatch) -> None:
    store.send(b"one")
    monkeypatch.setattr(controls, "LOCK_SECONDS", 0.1)
    with log.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match=r"controls.log: another process has held its lock"):
            store.send(b"two")
    assert store.send(b"three") == 1


class Sender:
    """Somebody who holds the lock and sends a lot, and the clock besides: he writes whenever we sleep, but slowly."""

    def __init__(self, log: Path, events: list[bytes]) -> None:
        self._file = log.open("ab", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._left = list(events)
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 0.9 * controls.LOCK_SECONDS
        if self._left:
            self._file.write(pack(self._left.pop(0)))
        else:
            self._file.close()


def test_a_log_that_grows_is_waited_for(store, log, monkeypatch) -> None:
    """Its lock may be taken by somebody who sends a lot each time that we look."""
    store.send(b"one")
    others = [b"%d" % number for number in range(15)]
    sender = Sender(log, others)
    with monkeypatch.context() as patch:
        patch.setattr(controls, "time", sender)
        assert store.send(b"two") == len(others) + 1
    assert sender.now > 10 * controls.LOCK_SECONDS
    assert store.sent(0) == [b"one", *others, b"two"]


def test_places_with_any_bit_changed_are_told(store, path) -> None:
    store.save_places([3, 14])
    places = path / "places.json"
    whole = places.read_bytes()
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        places.write_bytes(damaged)
        with pytest.raises(StateDamagedError, match=r"cannot read .*places.json: it is damaged; restore it"):
            store.load_places()
    places.write_bytes(whole)
    assert store.load_places() == [3, 14]
    places.unlink()
    places.mkdir()
    with pytest.raises(StateDamagedError, match=r"places.json: Is a directory"):
        store.load_places()


def test_what_is_given_out_is_on_disk(store, log, monkeypatch) -> None:
    """Its sender may not have come to that: a place must never outlive its event."""
    store.send(b"one")
    synced: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
        assert store.sent(0) == [b"one"]
        assert store.sent(1) == []
    assert synced == [log.stat().st_ino]


def test_where_nothing_can_be_sent_it_is_told(path, log, store) -> None:
    log.mkdir()
    with pytest.raises(OutputError, match=r"cannot write .*controls.log: Is a directory"):
        store.send(b"one")
    with pytest.raises(StateDamagedError, match=r"cannot read .*controls.log: Is a directory"):
        store.sent(0)
    (path.parent / "file").touch()
    with pytest.raises(OutputError, match=r"Not a directory|File exists"):
        DirectoryStore(DirectoryOptions(path=str(path.parent / "file"))).send(b"one")


SENDER = """
import sys
from speciate_plugins.stores.directory import DirectoryOptions, DirectoryStore
store = DirectoryStore(DirectoryOptions(path=sys.argv[1]))
sys.stdin.read(1)
for number in range(40):
    print(store.send(f"{sys.argv[2]} {number}".encode()))
"""


def test_processes_that_send_at_once_lose_nothing_and_are_emptied_at_once(path, log) -> None:
    """Nobody needs to open the store for it, and it need not be there yet."""
    senders = [
        subprocess.Popen([sys.executable, "-c", SENDER, path, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for name in "ab"
    ]
    for sender in senders:
        sender.stdin.write(b"!")
        sender.stdin.flush()
    told = [[int(line) for line in sender.communicate()[0].split()] for sender in senders]
    store = DirectoryStore(DirectoryOptions(path=str(path)))
    kept = [data.decode().split() for data in store.sent(0)]
    assert sorted(told[0] + told[1]) == list(range(80))
    for name, numbers in zip("ab", told, strict=True):
        assert [kept[number] for number in numbers] == [[name, str(count)] for count in range(40)]
    store.open(fresh=True)
    store.close()
    assert (log.read_bytes(), store.sent(0)) == (b"", [])
