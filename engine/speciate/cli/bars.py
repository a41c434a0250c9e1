"""Showing how far counted work is: a bar on a terminal, a log line now and then otherwise."""

import contextlib
import sys
import time
from collections.abc import Iterator

from speciate.logs import configure, get_logger
from speciate.stages import Watch

LINE_SECONDS = 10.0

log = get_logger(__name__)


@contextlib.contextmanager
def counting(what: str) -> Iterator[Watch]:
    """Yield the function that shows how far the work is."""
    if sys.stderr.isatty():
        with _bar(what) as show:
            configure()  # here, so that the bar puts log lines above itself
            yield show
    else:
        configure()
        yield _lines(what)


@contextlib.contextmanager
def _bar(what: str) -> Iterator[Watch]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(what),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total, word: progress.update(task, completed=done, total=total, description=word)


def _lines(what: str) -> Watch:
    said = time.monotonic()
    began: tuple[float, int] | None = None  # when it was first told, and how much had been done before

    def show(done: int, total: int, word: str) -> None:
        nonlocal said, began
        now = time.monotonic()
        started, before = began = began or (now, done)
        if done == total or now - said >= LINE_SECONDS:
            said = now
            left = {"seconds_left": round((now - started) * (total - done) / (done - before))} if done > before else {}
            log.info(what, done=done, total=total, **left, last=word)

    return show
