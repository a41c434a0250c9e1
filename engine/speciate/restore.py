"""Starting on files: from nothing, or exactly where the last commit left off, whatever ended the run before.

A resume cuts the outputs back to the last commit, loads the newest whole snapshot at or before it, and lets the
pipeline read from the snapshot's position on. Inputs that were answered already are folded with the answers that
were committed; nothing is decided again and nothing is emitted twice.
"""

from dataclasses import dataclass
from typing import Any

from speciate.catchup import Replay
from speciate.config import Resolved
from speciate.errors import StateDamagedError, StateMismatchError
from speciate.forwarding import Forwarding
from speciate.household import Household
from speciate.logs import get_logger
from speciate.parts import Parts
from speciate.snapshot import Snapshot, newest_whole
from speciate.stages import StateStore
from speciate.task import Task
from speciate.threads import in_thread
from speciate_schemas import Commit, Tally

log = get_logger(__name__)

START_OVER = "use another [store], or start over with --fresh"
LEARN_ANEW = "or stop all workers and run `speciate refold CONFIG`, which learns anew from the input that is kept"
"""What to do about a state that another configuration made: on files, and on a log."""


@dataclass
class Start:
    """A task ready to go on, and what must be folded again first."""

    task: Task | Forwarding
    commit: Commit
    snapshot_sequence: int
    replay: Replay
    new: bool = False
    """True if nothing of it is saved yet."""
    followed: bool = False
    """True if the task was followed here, so that nothing had to be restored."""


async def start(parts: Parts, home: Household, *, fresh: bool) -> Start | None:
    """Open everything and restore the last commit; None if there is none, and a new task must `begin`."""
    store = parts.needed_store
    await in_thread(None, store.open, fresh=fresh)
    if not home.resolved.decides:
        if await in_thread(None, store.snapshots):
            raise StateMismatchError(
                f"the state in {store.describe()} is of a pipeline that decides, and this one has no [density]: "
                "use another [store] and [sink], or start over with --fresh"
            )
        return await _start_forwarding(parts, await in_thread(None, store.load_commit))
    found = await in_thread(None, latest, store)
    if found is None:
        return None
    snapshot, commit = found
    check_made_by(snapshot, home.resolved)
    if not parts.answers.durable:
        commit = snapshot.commit
    if not parts.source.replayable and max(commit.sequence, *store.snapshots()) > snapshot.commit.sequence:
        raise StateDamagedError(
            f"the newest whole snapshot is of record {snapshot.commit.sequence}, a later one is damaged or missing, "
            "and this source cannot be read again: restore the state from a backup or start over with --fresh"
        )
    await parts.answers.open(commit.answers)
    await parts.needed_dead_letters.open(commit.dead_letters)
    await parts.source.open(snapshot.commit.source, snapshot.commit.sequence)
    await in_thread(None, _remove_damaged, store, snapshot.commit.sequence)
    behind = commit.sequence > snapshot.commit.sequence
    pieces = parts.answers.read_back(snapshot.commit.answers, commit.answers) if behind else None
    task = await home.restored_task(snapshot.state, snapshot.commit.tally, parts.locate)
    return Start(task, commit, snapshot.commit.sequence, Replay(pieces, commit.sequence))


async def _start_forwarding(parts: Parts, commit: Commit | None) -> Start | None:
    """What hands on without deciding has no state: the commit says all."""
    if commit is None:
        return None
    await parts.answers.open(commit.answers)
    await parts.source.open(commit.source, commit.sequence)
    task = Forwarding(encodes=parts.encoder is not None, sequence=commit.sequence, tally=commit.tally)
    return Start(task, commit, commit.sequence, Replay(None, commit.sequence))


async def begin(parts: Parts, home: Household, *, fresh: bool) -> Start:
    """A new task: a fitted head, empty outputs, the source at its start."""
    task: Task | Forwarding
    if home.resolved.decides:
        task = await home.new_task(parts.locate)
    else:
        task = Forwarding(encodes=parts.encoder is not None)
    for sink in parts.sinks:
        await sink.open(None, fresh=fresh)
    source = await parts.source.open(None, 0)
    commit = Commit(
        sequence=0,
        source=source,
        answers=await parts.answers.flush(),
        dead_letters=() if parts.dead_letters is None else await parts.dead_letters.flush(),
        tally=Tally(),
    )
    return Start(task, commit, 0, Replay(None, 0), new=True)


def latest(store: StateStore) -> tuple[Snapshot, Commit] | None:
    """The newest whole snapshot and the last commit: a snapshot's own, where it is the newer one."""
    snapshot = newest_whole(store)
    # The commit after the snapshot: while another process runs, it is then never the older one by mistake.
    commit = store.load_commit()
    if snapshot is not None:
        if commit is None or commit.sequence < snapshot.commit.sequence:
            log.warning(
                "no newer commit is left: going back to the snapshot's",
                sequence=snapshot.commit.sequence,
                store=store.describe(),
            )
            commit = snapshot.commit
        return snapshot, commit
    if commit is None and not store.snapshots():
        return None
    raise StateDamagedError(
        f"{store.describe()} holds no whole snapshot: restore it from a backup or start over with --fresh"
    )


def _remove_damaged(store: StateStore, whole: int) -> None:
    """Remove what lies above the newest whole snapshot: it would count as one of those kept, and is of no use."""
    for sequence in store.snapshots():
        if sequence > whole:
            store.remove_snapshot(sequence)


def check_made_by(snapshot: Snapshot, resolved: Resolved, remedy: str = START_OVER) -> None:
    """Refuse to go on with a state that another configuration made; another version of a plugin is only told.

    `remedy` is what can be done instead of changing the configuration back.
    """
    _check_config(snapshot.manifest.config, resolved.fold, remedy)
    _check_versions(snapshot.manifest.plugins, resolved.versions)


def _check_config(made: dict[str, Any], now: dict[str, Any], remedy: str) -> None:
    """Refuse to go on with a state that another configuration made, and say which key differs."""
    for section in sorted({*made, *now}):
        before, after = made.get(section) or {}, now.get(section) or {}
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                raise StateMismatchError(
                    f"the state was made with {section}.{key} = {before.get(key)!r}, the configuration says "
                    f"{after.get(key)!r}: change it back, {remedy}"
                )


def _check_versions(made: dict[str, str], now: dict[str, str]) -> None:
    for name, version in made.items():
        if name in now and now[name] != version:
            log.warning("the state was made by another version", plugin=name, made_by=version, now=now[name])
