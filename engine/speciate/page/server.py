"""The server: a thread with an event loop of its own, so that whoever asks is not felt by the pipeline."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from speciate.logs import get_logger
from speciate.page.address import BACKLOG, Place, listen
from speciate.page.app import Page
from speciate.page.guard import HEADER_BYTES, Guard
from speciate.page.protocol import BoundedProtocol
from speciate.page.refusals import Refusals
from speciate.page.sessions import Sessions
from speciate.page.subject import Subject

LEAVING_SECONDS = 1
STOP_SECONDS = 5.0

log = get_logger(__name__)


@asynccontextmanager
async def serve(subject: Subject, address: str, token: str | None) -> AsyncIterator[str]:
    """Listen, answer while the block lasts, and let go; yields the URL."""
    place = listen(address, token)
    refusals = Refusals(subject.instruments)
    sessions = Sessions(token, place.port)
    page = Page(subject, sessions, refusals)
    server = uvicorn.Server(_settings(Guard(page.application(), place, sessions, refusals), refusals))
    # A daemon: should it hang, the process ends all the same.
    thread = threading.Thread(target=_run, args=(server, place, page), name="page", daemon=True)
    thread.start()
    try:
        yield place.url
        page.feed.end()
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join, STOP_SECONDS)
        place.listening.close()


def _settings(guard: Guard, refusals: Refusals) -> uvicorn.Config:
    return uvicorn.Config(
        guard,
        http=functools.partial(BoundedProtocol, refusals),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        backlog=BACKLOG,  # or it accepts so many in one go that none of them is heard
        lifespan="off",
        h11_max_incomplete_event_size=HEADER_BYTES,
        server_header=False,
        proxy_headers=False,
        access_log=False,
        log_config=None,
        log_level="critical",  # what it has to say is said by the refusals and the guard
        timeout_graceful_shutdown=LEAVING_SECONDS,
    )


def _run(server: uvicorn.Server, place: Place, page: Page) -> None:
    async def run() -> None:
        telling = asyncio.create_task(page.feed.run())
        await server.serve(sockets=[place.listening])
        telling.cancel()
        for connection in list(server.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.give_up()
        await asyncio.sleep(0)

    try:
        asyncio.run(run())
    except Exception:
        log.exception("the page ended; the pipeline goes on without it")
