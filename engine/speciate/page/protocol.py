"""A connection that cannot be held for ever: so many at once, so long for a request and its answer."""

import asyncio
import socket
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from speciate.page.costs import Cost
from speciate.page.refusals import Refusals

MOST_CONNECTIONS = 128
PATIENCE_SECONDS = 10.0
"""From the first byte of a request, or from connecting, until its answer is taken."""
STREAM_BYTES = 64 << 10
"""What the system, and we on top of it, keep for the reader of a stream that falls behind."""
CONNECTION = "speciate.connection"
"""Where an application finds the connection of a request, among the extensions of its scope."""


class BoundedProtocol(H11Protocol):
    """Uvicorn's, with a deadline for each request; one connection too many costs the oldest its place.

    The oldest, and not the newest: a probe that asks and leaves gets through among any number who only hold on. And one
    of a stranger before any of somebody who has shown the token.
    A connection that has become a stream is excepted: it lasts as long as its reader takes what is sent.
    """

    def __init__(self, refusals: Refusals, **given: Any) -> None:
        super().__init__(**given)
        self._refusals = refusals
        self._deadline: asyncio.TimerHandle | None = None
        self._application: Any = self.app
        self.app = self._apply
        self.since = 0.0
        """When it was made."""
        self.streams = False
        """Whether its answer has no end."""
        self.is_known = False
        """Whether the token was shown on it."""
        self.cost = Cost()
        """What its reading, and the request on it, have taken so far."""

    async def _apply(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), CONNECTION: self}
        await self._application(scope, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        # An answer is written in pieces: the last must not wait until the first is acknowledged.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.since = self.loop.time()
        self._arm()
        others = [
            one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self and not one.streams
        ]
        if len(others) >= MOST_CONNECTIONS:
            self._refusals.note("crowded", connections=len(others) + 1)
            min(others, key=lambda one: (one.is_known, one.since)).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._arm()
        with self.cost:
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

    def begin_stream(self) -> None:
        """The answer that has begun goes on with what is pushed, for as long as it is taken."""
        self.streams = True
        self._disarm()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, STREAM_BYTES)

    @property
    def is_gone(self) -> bool:
        """Whether nobody is there any more to be answered."""
        return self.transport.is_closing()

    def push(self, data: bytes) -> None:
        """Send a piece of a stream. Never waits: a reader who leaves too much lying is given up."""
        if self.is_gone:
            return
        if self.transport.get_write_buffer_size() > STREAM_BYTES:
            self._too_slow()
            return
        self.transport.write(self.conn.send(h11.Data(data=data)) or b"")

    def shutdown(self) -> None:
        """The server ends: a stream does so at once."""
        if self.streams:
            self.give_up()
        else:
            super().shutdown()

    def give_up(self) -> None:
        """Drop the connection, and whatever the other side did not take; it is no longer one of ours at once."""
        self.connections.discard(self)
        self.transport.abort()

    @property
    def _socket(self) -> socket.socket:
        found: socket.socket = self.transport.get_extra_info("socket")
        return found

    def _arm(self) -> None:
        if self._deadline is None and not self.streams:
            self._deadline = self.loop.call_later(PATIENCE_SECONDS, self._too_slow)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refusals.note("slow", client=(self.client or ("",))[0])
        self.give_up()
