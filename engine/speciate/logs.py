"""Logging: structured, through the standard library, so that an application's own settings hold.

The command line calls `configure`; in a program that imports Speciate, its `logging` configuration decides.
"""

import io
import logging
import math
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import structlog

from speciate.terminal import shown

SPEAKERS = {"speciate"}
"""Packages that speak through `get_logger`, ours and those of plugins: they are heard from the level of the run on."""
HUSHED_SECONDS = 60.0
HUSHED_KEYS = 1000
MOST_AT_ONCE = 5.0
LINES_A_SECOND = 1.0


def get_logger(name: str) -> Any:
    """A logger that takes keyword arguments and hands them on as the record's extra fields."""
    package = name.partition(".")[0]
    if package not in SPEAKERS:
        SPEAKERS.add(package)
        # A plugin is imported when it is used, which may be after `configure`.
        logging.getLogger(package).setLevel(logging.getLogger("speciate").level)
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,  # the task that is spoken of
            structlog.stdlib.render_to_log_kwargs,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def configure(level: int = logging.INFO) -> None:
    """Log to standard error: readable lines on a terminal, one JSON object a line otherwise."""
    terminal = sys.stderr.isatty()
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_on_terminal() if terminal else _as_json()),
            ],
        )
    )
    handler.addFilter(Hushed())
    # The root: plugins, and the libraries they use, speak in the names of their own packages.
    root = logging.getLogger()
    for before in [one for one in root.handlers if any(isinstance(hush, Hushed) for hush in one.filters)]:
        root.removeHandler(before)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in SPEAKERS:
        logging.getLogger(name).setLevel(level)


def _as_json() -> list[Any]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(),
    ]


def _on_terminal() -> list[Any]:
    return [_show, structlog.dev.ConsoleRenderer(exception_formatter=_trace)]


def _show(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Whatever is said may come from outside: a terminal must show what is in it, not obey it."""
    for key, value in line.items():
        if isinstance(value, str):
            line[key] = shown(value)
        elif key != "exc_info" and not (told := repr(value)).isprintable():
            line[key] = shown(told)
    return line


def _trace(out: TextIO, exc_info: Any) -> None:
    """A traceback, plain: a coloured one has the values of variables in it, of which some are secret."""
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    out.write("\n".join(map(shown, plain.getvalue().split("\n"))))


class Hushed(logging.Filter):
    """Lets a library that says the same again and again, as while a broker is away, say it once a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """What is said through `get_logger` passes; the rest if it was not said a short while ago."""
        if record.name.partition(".")[0] in SPEAKERS:
            return True
        key = (record.name, str(record.msg))
        said, unsaid = self._said.get(key, (-math.inf, 0))
        if record.created - said < HUSHED_SECONDS:
            self._said[key] = (said, unsaid + 1)
            return False
        if len(self._said) > HUSHED_KEYS:
            self._said.clear()
        self._said[key] = (record.created, 0)
        if unsaid:
            record.repeated = unsaid
        return True


class Lines:
    """Lines that say the same of different inputs: of the first few, and then one a second, with how many others."""

    def __init__(self, log: Any, words: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._words = words
        self._clock = clock
        self._since = clock()
        self._left = MOST_AT_ONCE
        self._unsaid = 0

    def say(self, **about: Any) -> None:
        """Write a line about one input, or count it for the next one."""
        now = self._clock()
        self._left = min(MOST_AT_ONCE, self._left + (now - self._since) * LINES_A_SECOND)
        self._since = now
        if self._left < 1.0:
            self._unsaid += 1
            return
        self._left -= 1.0
        others, self._unsaid = self._unsaid, 0
        self._log.info(self._words, **about, **({"others": others} if others else {}))

    def close(self) -> None:
        """Tell how many more there were."""
        if self._unsaid:
            self._log.info(self._words, others=self._unsaid)
            self._unsaid = 0
