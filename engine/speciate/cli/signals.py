"""Stopping: the first SIGTERM or SIGINT drains, commits and saves; a second one leaves at once.

Leaving at once loses nothing either: whatever is not committed is read and decided again on the next run.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = "\x1b[?25h\n"


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within the block, a signal calls `stop`; a second one ends the process with 128 + its number."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def on_signal(number: int) -> None:
        if seen:
            if sys.stderr.isatty():
                os.write(sys.stderr.fileno(), SHOW_CURSOR.encode())  # the bar hides it and has no time to bring it back
            os._exit(128 + number)
        seen.append(number)
        # To `sys.stderr` as it is now: a bar puts what is written there above itself.
        click.echo("speciate: finishing what was read; once more to leave at once", file=sys.stderr)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
