"""Looking at the tasks of a pipeline from outside: what each has committed and saved, and how far it is behind.

Nothing is opened and nobody is disturbed: the pipeline may run meanwhile, here or elsewhere.
"""

from dataclasses import dataclass, replace

from speciate.config import Resolved
from speciate.restore import latest
from speciate.snapshot import Snapshot, newest_whole
from speciate.stages import Seat, Sink, StateStore, TransactionalSink, is_transactional
from speciate.threads import in_thread
from speciate_schemas import Position, Tally


@dataclass(frozen=True)
class TaskView:
    """One task as it was a moment ago."""

    number: int
    committed: int
    """Every input before this one is answered."""
    position: Position | None
    """Where the source goes on; None if that is not known."""
    behind: int | None
    """About how many records come after it; None if the source cannot tell."""
    snapshot: Snapshot | None
    """The newest whole one; none if nothing was saved yet, or there is nothing to save."""
    tally: Tally | None
    """What became of the inputs, as far as it is written down; None if it is nowhere."""
    outputs: str
    """For people: where the answers are."""
    state: str | None
    """For people: where the state is."""

    @property
    def begun(self) -> bool:
        """False if it has never run."""
        return self.committed > 0 or self.snapshot is not None or self.tally is not None


async def count_tasks(resolved: Resolved) -> int:
    """How many tasks the pipeline has, here and elsewhere."""
    source = resolved["source"]
    if source.provider.tasks is None:
        return 1
    return await source.provider.tasks(source.options, resolved.config.run.universe == "shared")


async def look(resolved: Resolved, seat: Seat) -> TaskView:
    """One task. Raises `StateDamagedError` if it has committed, and nothing whole is left to go on from."""
    store: StateStore | None = resolved["store"].create(seat) if "store" in resolved.sections else None
    answers: Sink = resolved["sink"].create(seat)
    try:
        if is_transactional(answers):
            view = await _look_at_outputs(resolved, seat, answers, store)
        else:
            assert store is not None  # noqa: S101  # nobody else could say what is committed
            view = await in_thread(None, _look_at_store, resolved, seat, answers, store)
    finally:
        await answers.close()
        if store is not None:
            await in_thread(None, store.close)
    return await _with_lag(resolved, seat, view)


async def _look_at_outputs(
    resolved: Resolved, seat: Seat, answers: TransactionalSink, store: StateStore | None
) -> TaskView:
    """The outputs are the truth. They are asked last: so they are never behind the snapshot by mistake."""
    saved = store if resolved.decides else None
    snapshot = None if saved is None else await in_thread(None, newest_whole, saved)
    ending = await answers.peek()
    position = ending.source
    if position is None and snapshot is not None:
        position = snapshot.commit.source
    return TaskView(
        number=seat.number,
        committed=ending.sequence,
        position=position,
        behind=None,
        snapshot=snapshot,
        tally=None if snapshot is None else snapshot.commit.tally,
        outputs=answers.describe(),
        state=None if saved is None else saved.describe(),
    )


def _look_at_store(resolved: Resolved, seat: Seat, answers: Sink, store: StateStore) -> TaskView:
    if resolved.decides:
        snapshot, commit = latest(store) or (None, None)
    else:
        snapshot, commit = None, store.load_commit()
    return TaskView(
        number=seat.number,
        committed=0 if commit is None else commit.sequence,
        position=None if commit is None else commit.source,
        behind=None,
        snapshot=snapshot,
        tally=None if commit is None else commit.tally,
        outputs=answers.describe(),
        state=store.describe(),
    )


async def _with_lag(resolved: Resolved, seat: Seat, view: TaskView) -> TaskView:
    source = resolved["source"]
    if source.provider.behind is None:
        return view
    return replace(view, behind=await source.provider.behind(source.options, seat, view.position))
