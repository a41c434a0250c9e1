"""The laws of a state store."""

from collections.abc import Callable

from speciate.conformance.expecting import expect_equal
from speciate.errors import StateLockedError
from speciate.stages import StateStore
from speciate_schemas import Commit, Tally


def check_store(make: Callable[[], StateStore]) -> None:
    """Check a state store.

    `make` makes a new store at the same place each time; there is nothing in it yet. The laws:

    - A store that was never used has no commit and no snapshots.
    - The last commit saved is the one loaded, by the next process too.
    - Snapshots come back byte for byte and are listed in order; removing one that is not there is fine.
    - While one has it open, another is refused with `StateLockedError`; after `close` it is not.
    - Opened `fresh`, it is empty.
    - `close` may be called twice, and before `open`.
    """
    unopened = make()
    unopened.close()
    _check_saving(make())
    _check_kept(make())
    _check_lock(make(), make())
    _check_fresh(make())


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
