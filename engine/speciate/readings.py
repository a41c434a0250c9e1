"""What is not counted but looked at: the gauges, set when somebody asks."""

from speciate.stages import Progress
from speciate.task import Task
from speciate.worker import Worker


def refresh(worker: Worker) -> None:
    """Bring the instruments of a worker up to date. Tasks that are not ours any more leave the gauges."""
    instruments, owned = worker.instruments, worker.owned
    flows = {number: one.run.flow for number, one in owned.items() if one.run.flow is not None}
    universes = {number: flow.task.universe for number, flow in flows.items() if isinstance(flow.task, Task)}
    progress = {number: owned[number].run.parts.source.progress() for number in flows}
    instruments.read_times()
    instruments.replace("speciate_categories", {number: one.size for number, one in universes.items()})
    instruments.replace("speciate_head_bytes", {number: one.nbytes for number, one in universes.items()})
    instruments.replace("speciate_sequence", {number: flow.task.sequence for number, flow in flows.items()})
    instruments.replace("speciate_lag_bytes", _lags(progress, in_bytes=True))
    instruments.replace("speciate_lag_records", _lags(progress, in_bytes=False))
    instruments.replace("speciate_task_ready", {number: not one.unready for number, one in owned.items()})
    instruments.replace("speciate_task_away", {number: bool(one.away) for number, one in owned.items()})
    instruments.set("speciate_tasks_owned", len(owned))
    instruments.set("speciate_tasks_followed", worker.followed)
    instruments.set("speciate_ready", not worker.unready)


def _lags(progress: dict[int, Progress], *, in_bytes: bool) -> dict[int, int]:
    """How far each source is behind, of those that count in bytes, or of the others."""
    return {
        number: max(0, one.total - one.done)
        for number, one in progress.items()
        if one.total is not None and (one.unit == "bytes") == in_bytes
    }
