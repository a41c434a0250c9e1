"""Taking over on a log: shut the former owner out, then go on exactly where the committed answers end.

The output is the truth: its last commit says how far the input is answered. The newest whole snapshot is loaded, and
the inputs between it and the last commit are folded with the answers that were committed. Without a snapshot all of
them are; one who has followed the task has folded them already.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from speciate.catchup import Replay
from speciate.errors import FencedError, SourceError, StateDamagedError, StateError, StateMismatchError
from speciate.forwarding import Forwarding
from speciate.household import Household
from speciate.logs import get_logger
from speciate.parts import Parts
from speciate.restore import LEARN_ANEW, Start, check_made_by
from speciate.snapshot import newest_whole
from speciate.stages import Ending, Sink, StateStore, TransactionalSink
from speciate.task import Task
from speciate.threads import in_thread
from speciate_schemas import Answer, Commit, Position, Tally

log = get_logger(__name__)

LOOKS, LOOK_SECONDS = 11, 0.5
"""How often, and how far apart, to look for answers that others must have given: they may be seen a moment late."""

Ready = Callable[[int], Awaitable[Task | None]]
"""Gives the task as it is before some record, if it was followed that far."""


async def take_over(parts: Parts, answers: TransactionalSink, home: Household, ready: Ready | None = None) -> Start:
    """Become the only one who answers for this seat, and go on where the committed answers end."""
    ending = await answers.recover()
    if not home.resolved.decides:
        return await _forward_on(parts, ending)
    try:
        return await _go_on(parts, answers, home, ending, ready)
    except (SourceError, StateError) as error:
        # A process that was frozen meanwhile wakes up with an ending that others have left behind, to find a state
        # that does not fit it. Whether it was so, looking again tells.
        if await _left_behind(answers, ending, LOOKS if isinstance(error, _AheadError) else 1):
            raise FencedError(f"others have gone on behind record {ending.sequence} of {answers.describe()}") from error
        raise


class _AheadError(StateMismatchError):
    """The state has come further than the output, as far as that was seen."""


async def _left_behind(answers: TransactionalSink, ending: Ending, looks: int) -> bool:
    """Whether others have gone on behind it, as far as so many looks tell."""
    for look in range(looks):
        if look:
            await asyncio.sleep(LOOK_SECONDS)
        if (await answers.peek()).sequence > ending.sequence:
            return True
    return False


async def _go_on(
    parts: Parts, answers: TransactionalSink, home: Household, ending: Ending, ready: Ready | None
) -> Start:
    await parts.needed_dead_letters.open(None)
    store = parts.needed_store
    await in_thread(None, store.open, fresh=False)
    followed = await ready(ending.sequence) if ready is not None else None
    if followed is not None and ending.sequence:
        source = await parts.source.open(ending.source, ending.sequence)
        saved = max(await in_thread(None, store.snapshots), default=0)
        return Start(followed, _commit(ending, source), saved, Replay(None, ending.sequence), followed=True)
    snapshot = await in_thread(None, newest_whole, store)
    if snapshot is None:
        return await _learn_again(parts, answers, home, ending)
    ending = _fitting(ending, snapshot.commit, answers, store)
    check_made_by(snapshot, home.resolved, LEARN_ANEW)
    made = snapshot.commit
    await parts.source.open(made.source, made.sequence)
    behind = ending.sequence > made.sequence
    pieces = answers.read_back(made.answers, ending.end) if behind else None
    if pieces is not None and not _drops(home):
        pieces = _unbroken(pieces, made.sequence, answers, f"the newest whole snapshot is of record {made.sequence}")
    task = await home.restored_task(snapshot.state, made.tally, parts.locate)
    commit = _commit(ending, ending.source if behind else made.source)
    return Start(task, commit, made.sequence, Replay(pieces, ending.sequence))


async def _forward_on(parts: Parts, ending: Ending) -> Start:
    if ending.expired and ending.source is None:
        raise _forgotten(parts.answers)
    source = await parts.source.open(ending.source, ending.sequence)
    task = Forwarding(encodes=parts.encoder is not None, sequence=ending.sequence)
    return Start(task, _commit(ending, source), ending.sequence, Replay(None, ending.sequence))


async def _learn_again(parts: Parts, answers: TransactionalSink, home: Household, ending: Ending) -> Start:
    """Without a snapshot: a new task, which learns whatever was answered from the first answer on."""
    if ending.expired:
        raise _forgotten(answers)
    source = await parts.source.open(None, 0)
    task = await home.new_task(parts.locate)
    if not ending.sequence:
        return Start(task, _commit(ending, source), 0, Replay(None, 0), new=True)
    log.warning("no whole snapshot is left: learning all over again", answers=ending.sequence, sink=answers.describe())
    pieces = answers.read_back(ending.first, ending.end)
    if not _drops(home):
        pieces = _unbroken(pieces, 0, answers, "no whole snapshot is left")
    return Start(task, _commit(ending, ending.source), 0, Replay(pieces, ending.sequence))


async def _unbroken(
    pieces: AsyncIterator[Sequence[Answer]], first: int, sink: Sink, state: str
) -> AsyncIterator[Sequence[Answer]]:
    """The answers from record `first` on; where no input is ever dropped, one that is missing is gone."""
    due = first
    async for piece in pieces:
        for answer in piece:
            if answer.sequence != due:
                gone = f"of records {due} to {answer.sequence - 1}"
                which = f"before record {answer.sequence}" if due == first else gone
                raise StateDamagedError(
                    f"{state}, and the answers {which} are gone from {sink.describe()}: "
                    "restore the state from a backup, or start over with new outputs"
                )
            due += 1
        yield piece


def _drops(home: Household) -> bool:
    return home.resolved.config.run.overflow != "block"


def _forgotten(sink: Sink) -> StateDamagedError:
    return StateDamagedError(
        f"all that was written to {sink.describe()} has expired, so what of the input was answered is not known: "
        "restore the state from a backup, or start over with a new output, and with the source's start where it should "
        "be"
    )


def _fitting(ending: Ending, saved: Commit, answers: TransactionalSink, store: StateStore) -> Ending:
    """The outputs must have come at least as far as the state, or have expired right behind it."""
    if saved.sequence <= ending.sequence and not ending.expired:
        return ending
    if ending.expired and answers.ended_at(saved.answers):
        return Ending(saved.sequence, saved.source, saved.answers, saved.answers)
    kind = StateMismatchError if ending.expired else _AheadError
    raise kind(
        f"the state in {store.describe()} is of record {saved.sequence}, but the output answers only "
        f"{ending.sequence}: it was emptied, or belongs to another state; restore it, or start over with a new state"
    )


def _commit(ending: Ending, source: Position | None) -> Commit:
    return Commit(sequence=ending.sequence, source=source, answers=ending.end, dead_letters=(), tally=Tally())
