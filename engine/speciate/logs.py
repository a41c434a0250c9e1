"""Logging: structured, through the standard library, so that an application's own settings hold.

The command line calls `configure`; in a program that imports Speciate, its `logging` configuration decides.
"""

import logging
import sys
from typing import Any

import structlog


def get_logger(name: str) -> Any:
    """A logger that takes keyword arguments and hands them on as the record's extra fields."""
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def configure(level: int = logging.INFO) -> None:
    """Log to standard error: readable lines on a terminal, one JSON object a line otherwise."""
    terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
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
                structlog.processors.EventRenamer("message") if not terminal else _same,
                renderer,
            ],
        )
    )
    logger = logging.getLogger("speciate")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _same(_logger: Any, _name: str, event: Any) -> Any:
    return event
