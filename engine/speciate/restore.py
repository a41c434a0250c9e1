"""Starting: from nothing, or exactly where the last commit left off, whatever ended the run before.

A resume cuts the outputs back to the last commit, loads the newest whole snapshot at or before it, and lets the
pipeline read from the snapshot's position on. Inputs that were answered already are folded with the answers that
were committed; nothing is decided again and nothing is emitted twice.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from speciate.config import Resolved
from speciate.errors import StateDamagedError, StateMismatchError
from speciate.head import Head
from speciate.logs import get_logger
from speciate.plugins import Plugins
from speciate.snapshot import Snapshot, whole_snapshots
from speciate.stages import Encoder, Record, Sink, Source, StateStore
from speciate.support import read_support
from speciate.task import Task
from speciate.threads import in_thread
from speciate_schemas import Answer, Commit, Tally

log = get_logger(__name__)


@dataclass
class Parts:
    """The stages of one pipeline, made and not yet opened."""

    source: Source
    encoder: Encoder | None
    answers: Sink
    dead_letters: Sink
    store: StateStore

    @classmethod
    def of(cls, resolved: Resolved) -> "Parts":
        """Make every stage the configuration names."""
        encoder = resolved["encoder"].create() if "encoder" in resolved.sections else None
        return cls(
            source=resolved["source"].create(),
            encoder=encoder,
            answers=resolved["sink"].create(),
            dead_letters=resolved["dead_letters"].create(),
            store=resolved["store"].create(),
        )


class Replay:
    """Answers committed before, handed out beside the records they answer."""

    def __init__(self, pieces: AsyncIterator[Sequence[Answer]] | None, until: int) -> None:
        self._pieces = pieces
        self._answers: list[Answer] = []
        self.until = until
        """Every record before this one is answered."""

    async def match(self, records: Sequence[Record]) -> tuple[list[Record], list[Answer]]:
        """The records that have an answer, and the answers; the others were dropped before they were decided."""
        matched: tuple[list[Record], list[Answer]] = ([], [])
        for record in records:
            answer = await self._peek()
            if answer is not None and answer.sequence < record.sequence:
                raise StateMismatchError(
                    f"the outputs answer record {answer.sequence}, which the input no longer holds: "
                    "restore the input or start over with --fresh"
                )
            if answer is not None and answer.sequence == record.sequence:
                matched[0].append(record)
                matched[1].append(self._answers.pop())
        return matched

    async def _peek(self) -> Answer | None:
        while not self._answers and self._pieces is not None:
            piece = await anext(self._pieces, None)
            if piece is None:
                self._pieces = None
            else:
                self._answers = list(reversed(piece))
        return self._answers[-1] if self._answers else None


@dataclass
class Start:
    """A task ready to go on, and what must be folded again first."""

    task: Task
    commit: Commit
    snapshot_sequence: int
    replay: Replay


async def start(parts: Parts, resolved: Resolved, plugins: Plugins, *, fresh: bool) -> Start | None:
    """Open everything and restore the last commit; None if there is none, and a new task must `begin`."""
    await in_thread(None, parts.store.open, fresh=fresh)
    found = await in_thread(None, latest, parts.store)
    if found is None:
        return None
    snapshot, commit = found
    _check_config(snapshot.manifest.config, resolved.fold)
    _check_versions(snapshot.manifest.plugins, resolved.versions)
    if not parts.answers.durable:
        commit = snapshot.commit
    if not parts.source.replayable and max(commit.sequence, *parts.store.snapshots()) > snapshot.commit.sequence:
        raise StateDamagedError(
            f"the newest whole snapshot is of record {snapshot.commit.sequence}, a later one is damaged or missing, "
            "and this source cannot be read again: restore the state from a backup or start over with --fresh"
        )
    await parts.answers.open(commit.answers)
    await parts.dead_letters.open(commit.dead_letters)
    await parts.source.open(snapshot.commit.source, snapshot.commit.sequence)
    await in_thread(None, _remove_damaged, parts.store, snapshot.commit.sequence)
    behind = commit.sequence > snapshot.commit.sequence
    pieces = parts.answers.read_back(snapshot.commit.answers, commit.answers) if behind else None
    task = Task.from_state(
        snapshot.state,
        plugins=plugins,
        duplicate_window=resolved.config.run.duplicate_window,
        locate=parts.dead_letters.locate,
        tally=snapshot.commit.tally,
    )
    return Start(task, commit, snapshot.commit.sequence, Replay(pieces, commit.sequence))


async def fit(parts: Parts, resolved: Resolved) -> Head:
    """A new head, fitted to the support set."""
    features, labels = await read_support(resolved["support"].create(), parts.encoder)
    head = Head(resolved["density"], resolved["policy"])
    await in_thread(None, head.calibrate, features, labels)
    return head


async def begin(parts: Parts, resolved: Resolved, head: Head, *, fresh: bool) -> Start:
    """A new task: a fitted head, empty outputs, the source at its start."""
    await parts.answers.open(None, fresh=fresh)
    await parts.dead_letters.open(None, fresh=fresh)
    task = Task(
        head,
        duplicate_window=resolved.config.run.duplicate_window,
        locate=parts.dead_letters.locate,
    )
    await parts.source.open(None, 0)
    commit = Commit(
        sequence=0,
        source=None,
        answers=await parts.answers.flush(),
        dead_letters=await parts.dead_letters.flush(),
        tally=Tally(),
    )
    return Start(task, commit, 0, Replay(None, 0))


def latest(store: StateStore) -> tuple[Snapshot, Commit] | None:
    """The newest whole snapshot and the last commit: a snapshot's own, where it is the newer one."""
    snapshot = next(whole_snapshots(store), None)
    # The commit after the snapshot: while another process runs, it is then never the older one by mistake.
    commit = store.load_commit()
    if snapshot is not None:
        if commit is None or commit.sequence < snapshot.commit.sequence:
            log.warning("no newer commit is left: going back to the snapshot's", sequence=snapshot.commit.sequence)
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


def _check_config(made: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with a state that another configuration made, and say which key differs."""
    for section in sorted({*made, *now}):
        before, after = made.get(section) or {}, now.get(section) or {}
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                raise StateMismatchError(
                    f"the state was made with {section}.{key} = {before.get(key)!r}, the configuration says "
                    f"{after.get(key)!r}: change it back, use another [store], or start over with --fresh"
                )


def _check_versions(made: dict[str, str], now: dict[str, str]) -> None:
    for name, version in made.items():
        if name in now and now[name] != version:
            log.warning("the state was made by another version", plugin=name, made_by=version, now=now[name])
