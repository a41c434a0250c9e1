"""Watching a run: a live bar on a terminal, a log line now and then otherwise."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from speciate.logs import get_logger
from speciate.pipeline import Pipeline
from speciate.report import Status

BAR_SECONDS = 0.1
LINE_SECONDS = 10.0

log = get_logger(__name__)


@asynccontextmanager
async def watching(pipeline: Pipeline) -> AsyncIterator[None]:
    """Show how the pipeline stands while the block runs, and once more at its end."""
    with contextlib.ExitStack() as stack:
        terminal = sys.stderr.isatty()
        show = stack.enter_context(_bar()) if terminal else _line
        watcher = asyncio.create_task(_watch(pipeline, show, BAR_SECONDS if terminal else LINE_SECONDS))
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
            status = pipeline.status()
            if status is not None and terminal:
                show(status)


async def _watch(pipeline: Pipeline, show: Callable[[Status], None], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        status = pipeline.status()
        if status is not None:
            show(status)


def _line(status: Status) -> None:
    log.info(
        "running",
        answered=status.answered,
        rate=round(status.events_per_second, 1),
        categories=status.categories,
        births=status.tally.births,
        rejected=status.tally.rejected,
        dropped=status.tally.dropped,
        lag=status.lag,
        lag_unit=status.progress.unit,
    )


@contextlib.contextmanager
def _bar() -> Any:
    """A progress bar; yields the function that moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("starting", total=None)

        def show(status: Status) -> None:
            done, total, _ = status.progress
            progress.update(task, completed=done, total=total, description=_description(status))

        yield show


def _description(status: Status) -> str:
    lag = "" if status.lag is None else f" · {status.lag:,} {status.progress.unit} behind"
    dropped = f" · {status.tally.dropped:,} dropped" if status.tally.dropped else ""
    return (
        f"{status.answered:,} events · {status.events_per_second:,.0f}/s · {status.categories} categories · "
        f"{status.tally.births} births · {status.tally.rejected} rejected{dropped}{lag}"
    )
