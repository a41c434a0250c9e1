"""Watching a run: a live bar on a terminal, a log line now and then otherwise."""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from speciate.logs import get_logger
from speciate.pipeline import Pipeline
from speciate.report import Status

BAR_SECONDS = 0.1
LINE_SECONDS = 10.0
RATE_SECONDS = 10.0
"""The rate shown is that of the last so many seconds: what it was an hour ago helps nobody."""

Show = Callable[[Status, float], None]

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
                show(status, status.events_per_second)


async def _watch(pipeline: Pipeline, show: Show, seconds: float) -> None:
    recent: deque[Status] = deque()
    while True:
        await asyncio.sleep(seconds)
        status = pipeline.status()
        if status is not None:
            recent.append(status)
            # Two are needed for a rate, however long ago the first was.
            while len(recent) > 2 and status.seconds - recent[0].seconds > RATE_SECONDS:  # noqa: PLR2004
                recent.popleft()
            show(status, _rate(recent[0], status))


def _rate(earlier: Status, now: Status) -> float:
    elapsed = now.seconds - earlier.seconds
    return (now.answered - earlier.answered) / elapsed if elapsed else now.events_per_second


def _line(status: Status, rate: float) -> None:
    log.info(
        "running",
        answered=status.answered,
        rate=round(rate, 1),
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

    columns = (SpinnerColumn(), BarColumn(bar_width=20), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("starting", total=None)

        def show(status: Status, rate: float) -> None:
            done, total, _ = status.progress
            progress.update(task, completed=done, total=total, description=_description(status, rate))

        yield show


def _description(status: Status, rate: float) -> str:
    """The figures, those first that must not be cut off on a narrow terminal."""
    tally = status.tally
    parts = [
        f"{status.answered:,} events",
        f"{rate:,.0f}/s",
        f"{status.categories:,} categories",
        f"{tally.births:,} births",
        *([] if status.lag is None else [f"{status.lag:,} {status.progress.unit} behind"]),
        *(f"{count:,} {name}" for name, count in (("rejected", tally.rejected), ("dropped", tally.dropped)) if count),
    ]
    return " · ".join(parts)
