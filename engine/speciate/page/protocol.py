"""A connection that cannot be held for ever: so many at once, so long for a request and its answer."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from speciate.page.refusals import Refusals

MOST_CONNECTIONS = 64
PATIENCE_SECONDS = 10.0
"""From the first byte of a request, or from connecting, until its answer is taken."""


class BoundedProtocol(H11Protocol):
    """Uvicorn's, with a deadline for each request; one connection too many costs the oldest its place.

    The oldest, and not the newest: a probe that asks and leaves gets through among any number who only hold on.
    """

    def __init__(self, refusals: Refusals, **given: Any) -> None:
        super().__init__(**given)
        self._refusals = refusals
        self._deadline: asyncio.TimerHandle | None = None
        self.since = 0.0
        """When it was made."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._arm()
        if len(self.connections) > MOST_CONNECTIONS:
            ours = [one for one in self.connections if isinstance(one, BoundedProtocol)]
            self._refusals.note("crowded", connections=len(ours))
            min(ours, key=lambda one: one.since).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._arm()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """The answer is on its way; from here on the connection is only kept alive, for a short while."""
        self._disarm()
        super().on_response_complete()
        if self.cycle is not None and not self.cycle.response_complete:
            self._arm()  # the next request was there already

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refusals.note("malformed", client=(self.client or ("",))[0])
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            self.give_up()  # in the midst of an answer

    def give_up(self) -> None:
        """Drop the connection, and whatever the other side did not take; it is no longer one of ours at once."""
        self.connections.discard(self)
        self.transport.abort()

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE_SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refusals.note("slow", client=(self.client or ("",))[0])
        self.give_up()
