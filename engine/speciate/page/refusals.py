"""Refused requests: counted each, told once a kind, so that nobody can fill a log with them."""

from collections.abc import Mapping
from typing import Literal

import msgspec
from starlette.responses import PlainTextResponse, Response

from speciate.instruments import Instruments
from speciate.logs import get_logger
from speciate_schemas.page import Refused

log = get_logger(__name__)

Reason = Literal[
    "token",
    "host",
    "origin",
    "malformed",
    "headers",
    "method",
    "type",
    "body",
    "invalid",
    "unknown",
    "uncontrollable",
    "crowded",
    "streams",
    "slow",
    "unready",
    "stuck",
    "failed",
]
"""What a refusal is counted as; the table of metrics says what each means."""


class RefusedError(Exception):
    """A request that is not done: the status to answer with, the kind it is counted as, and the reason for people."""

    def __init__(self, status: int, reason: Reason, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.headers = headers

    def response(self, path: str) -> Response:
        """The answer: JSON where JSON is spoken, else a line of text."""
        if path.startswith("/api/") or path == "/session":
            told = msgspec.json.encode(Refused(error=str(self)))
            return Response(told, self.status, self.headers, "application/json")
        return PlainTextResponse(f"{self}\n", self.status, self.headers)


class Refusals:
    """Takes down what was refused."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._told: set[str] = set()
        self._failures: set[type[Exception]] = set()

    def note(self, reason: Reason, **details: object) -> None:
        """Count a refusal; `details` are told with the first of its kind."""
        self._count(reason)
        if reason not in self._told:
            self._told.add(reason)
            log.warning("a request to the page was refused; others like it are only counted", reason=reason, **details)

    def failed(self, error: Exception, path: str) -> None:
        """Count a request that the page itself failed to answer; told once a type of error."""
        self._count("failed")
        if type(error) not in self._failures:
            self._failures.add(type(error))
            log.error("the page failed to answer; others like it are only counted", path=path[:256], exc_info=error)

    def _count(self, reason: Reason) -> None:
        self._instruments.value("speciate_page_refusals_total", reason).add()
