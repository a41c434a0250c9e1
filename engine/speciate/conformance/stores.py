"""The laws of a state store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from speciate.conformance.expecting import expect_equal
from speciate.errors import StateLockedError
from speciate.stages import StateStore, Steerable, is_steerable
from speciate_schemas import Commit, Tally

SENDERS, SENDS = 4, 6


def check_store(make: Callable[[], StateStore]) -> None:
    """Check a state store.

    `make` makes a new store at the same place each time; there is nothing in it yet. The laws:

    - A store that was never used has no commit and no snapshots.
    - The last commit saved is the one loaded, by the next process too.
    - Snapshots come back byte for byte and are listed in order; removing one that is not there is fine.
    - While one has it open, another is refused with `StateLockedError`; after `close` it is not.
    - Opened `fresh`, it is empty.
    - `close` may be called twice, and before `open`.

    Of one that keeps control events (`Steerable`) also:

    - They are numbered as they were sent, and come back byte for byte to everyone, who need not have opened it.
    - They can be sent while another has it open, also by several at once; none is lost, and each has its own number.
    - The places saved last are the ones loaded, by the next process too. Fewer may replace more.
    - Opened `fresh`, it has neither, and numbers begin at 0.
    """
    unopened = make()
    unopened.close()
    _check_saving(make())
    _check_kept(make())
    _check_lock(make(), make())
    _check_fresh(make())
    if is_steerable(unopened):
        _check_steering(make)


def _commit(sequence: int) -> Commit:
    tally = Tally(assigned=sequence)
    return Commit(sequence=sequence, source=(0, "in.log", 7), answers=(sequence,), dead_letters=(0,), tally=tally)


def _check_saving(store: StateStore) -> None:
    store.open(fresh=False)
    expect_equal((store.load_commit(), store.snapshots()), (None, []), "a new store must be empty")
    for sequence in (1, 2):
        store.save_commit(_commit(sequence))
        expect_equal(store.load_commit(), _commit(sequence), "the last commit saved must be the one loaded")
    # Out of order, and of different lengths as text: they must be sorted as numbers.
    for sequence in (10, 9, 0):
        store.save_snapshot(sequence, bytes([sequence]) * 1000)
    store.remove_snapshot(0)
    store.remove_snapshot(0)
    store.close()
    store.close()


def _check_kept(store: StateStore) -> None:
    store.open(fresh=False)
    expect_equal(store.load_commit(), _commit(2), "the commit must be there for the next process")
    expect_equal(store.snapshots(), [9, 10], "snapshots must be listed in order, without those removed")
    expect_equal(store.load_snapshot(9), bytes([9]) * 1000, "a snapshot must come back byte for byte")
    store.close()


def _check_lock(first: StateStore, second: StateStore) -> None:
    first.open(fresh=False)
    try:
        second.open(fresh=False)
    except StateLockedError:
        first.close()
    else:
        raise AssertionError("a store that is open must be refused to another with StateLockedError")
    second.open(fresh=False)
    second.close()


def _check_fresh(store: StateStore) -> None:
    store.open(fresh=True)
    found = (store.load_commit(), store.snapshots())
    store.close()
    expect_equal(found, (None, []), "fresh must empty the store")


def _check_steering(make: Callable[[], StateStore]) -> None:
    first, second, reader = (_steerable(make) for _ in range(3))
    found = (reader.sent(0), reader.load_places())
    expect_equal(found, ([], []), "a new store must have no control events and no places")
    first.open(fresh=False)
    sent = [b"", b"one", bytes(range(256)) * 100]
    numbers = [store.send(data) for store, data in zip((first, second, first), sent, strict=True)]
    expect_equal(numbers, [0, 1, 2], "control events must be numbered as they were sent, whoever sent them")
    for store in (first, second, reader):
        for start in (0, 2, 1, 3, 0):
            expect_equal(store.sent(start), sent[start:], f"sent({start}) must give those from there on, as they were")
    _check_senders(make, reader)
    for places in ([], [0, 7, 8], [0, 7]):
        first.save_places(places)
        expect_equal(reader.load_places(), places, "the places saved last must be the ones loaded")
    first.close()
    second.open(fresh=True)
    found = (second.sent(0), second.load_places())
    expect_equal(found, ([], []), "fresh must discard control events and places")
    expect_equal(first.send(b"new"), 0, "after fresh, control events must be numbered from 0")
    second.close()


def _check_senders(make: Callable[[], StateStore], reader: Steerable) -> None:
    """Several at once, while another has the store open."""

    def send(sender: int) -> dict[int, bytes]:
        store = _steerable(make)
        return {store.send(data): data for data in (f"{sender} {count}".encode() for count in range(SENDS))}

    before = len(reader.sent(0))
    with ThreadPoolExecutor(SENDERS) as pool:
        told = [item for numbers in pool.map(send, range(SENDERS)) for item in numbers.items()]
    kept = dict(enumerate(reader.sent(before), before))
    expect_equal(sorted(told), sorted(kept.items()), "each control event must be kept once, under the number told")


def _steerable(make: Callable[[], StateStore]) -> Steerable:
    store = make()
    assert is_steerable(store)  # noqa: S101  # it was before
    return store
