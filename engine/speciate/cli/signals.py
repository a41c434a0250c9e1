"""Stopping: the first SIGTERM or SIGINT drains, commits and saves; a second one leaves at once.

Leaving at once loses nothing either: whatever is not committed is read and decided again on the next run.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block, a signal calls `stop`; a second one ends the process with 128 + its number."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        if seen:
            os._exit(128 + number)
        seen.append(number)
        click.echo("speciate: finishing what was read; once more to leave at once", err=True)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
