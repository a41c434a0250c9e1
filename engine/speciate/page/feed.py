"""The event stream: once a second one message, made once, and the same bytes for everybody who listens."""

import asyncio
import contextlib
from collections import deque

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from speciate.audience import MOST_NEWS, News
from speciate.logs import get_logger
from speciate.page.asking import StuckError
from speciate.page.overview import Overview
from speciate.page.protocol import CONNECTION, BoundedProtocol
from speciate.page.refusals import RefusedError
from speciate.page.subject import Subject
from speciate_schemas.page import Condition, StateView, Tidings, Told

MOST_STREAMS = 128
SECONDS = 1.0
RETRY_SECONDS = 2
STREAM_HEADERS = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
"""The second tells a proxy in front to hand each message on at once."""

log = get_logger(__name__)


class Feed:
    """Takes what has happened, and tells it to all streams there are."""

    def __init__(self, subject: Subject, overview: Overview) -> None:
        self._subject = subject
        self._overview = overview
        self._births: deque[Told] = deque(maxlen=MOST_NEWS)
        self._controls: deque[Told] = deque(maxlen=MOST_NEWS)
        self._state: StateView | None = None
        self._greeting: bytes | None = None
        self._failed = False
        self._places = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = False
        self.streams: set[BoundedProtocol] = set()
        """Those who listen."""

    async def run(self) -> None:
        """Tell what there is, once a second, until it ends."""
        self._loop = asyncio.get_running_loop()
        while not self._ended:
            began = asyncio.get_running_loop().time()
            try:
                await self._tell()
                self._failed = False
            except Exception as error:  # noqa: BLE001  # whatever it is, the others may still ask
                # Said once, or a log would fill with it.
                (log.debug if self._failed else log.error)("the page cannot tell how it is", exc_info=error)
                self._failed = True
            await asyncio.sleep(max(0.1, began + SECONDS - asyncio.get_running_loop().time()))

    def end(self) -> None:
        """Tell all who listen that it ends, and in good order; asked from any thread, before the server closes."""
        with contextlib.suppress(RuntimeError):  # the page's loop has ended already
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._say_goodbye)

    def _say_goodbye(self) -> None:
        self._ended = True
        if self._state is not None:
            self._state = _halted(self._state, "stopping", "stopping")
            self._push(self._state)

    async def state(self) -> StateView:
        """How it was within the last second or so."""
        if self._state is None:
            self._state = await self._overview.state()
        return self._state

    async def _tell(self) -> None:
        try:
            state: StateView | None = await self._overview.state()
        except StuckError as error:
            state = self._state
            if state is not None:
                state = _halted(state, "waiting", str(error))
        if not self._ended:
            self._state = state
            self._push(state)

    def _push(self, state: StateView | None) -> None:
        news = self._subject.audience.take()
        self._births.extend(news.births)
        self._controls.extend(news.controls)
        self._greeting = None
        if self.streams and state is not None:
            message = _message(state, news)
            for one in list(self.streams):
                one.push(message)

    async def greeting(self) -> bytes:
        """What somebody is told who begins to listen: the state, the newest births, and what was done by hand."""
        state = await self.state()
        if self._greeting is None:
            self._greeting = _message(state, News(list(self._births), list(self._controls), [], [], 0))
        return self._greeting

    async def answer(self, request: Request) -> Response:
        """An answer without an end; raises `RefusedError` if there are too many already."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self._places >= MOST_STREAMS:
            told = {"Retry-After": str(RETRY_SECONDS * 5), "Connection": "close"}
            raise RefusedError(503, "streams", f"{MOST_STREAMS} listen already: close a page, or try later", told)
        # Taken here, where nothing is waited for since it was counted; given back at the end of the stream.
        self._places += 1
        return _Stream(self)

    async def listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a stream until its reader leaves, or is given up."""
        connection: BoundedProtocol = scope["extensions"][CONNECTION]
        try:
            greeting = f"retry: {RETRY_SECONDS * 1000}\n".encode() + await self.greeting()
            await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
            await send({"type": "http.response.body", "body": greeting, "more_body": True})
            if not connection.is_gone:
                connection.begin_stream()
                self.streams.add(connection)
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self.streams.discard(connection)
            self._places -= 1


class _Stream(Response):
    """An answer that the feed goes on with."""

    def __init__(self, feed: Feed) -> None:
        super().__init__()
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._feed.listen(scope, receive, send)


def _halted(state: StateView, condition: Condition, reason: str) -> StateView:
    """The last that is known, but that it does not go on."""
    return msgspec.structs.replace(state, condition=condition, unready=[reason], events_per_second=0.0)


def _message(state: StateView, news: News) -> bytes:
    tidings = Tidings(
        state=state,
        births=news.births,
        controls=news.controls,
        rejections=news.rejections,
        assignments=news.assignments,
        skipped=news.skipped,
    )
    return b"event: tidings\ndata: " + msgspec.json.encode(tidings) + b"\n\n"
