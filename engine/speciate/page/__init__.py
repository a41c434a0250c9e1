"""The operator's side of a pipeline, over HTTP: the live page and its API, metrics and health, on a thread of its own.

Whoever asks for it imports it, and the extra `page` with it; a run without a page knows nothing of it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from speciate.errors import PluginError
from speciate.page.stopped import Stopped
from speciate.pipeline import Pipeline


@asynccontextmanager
async def serving(
    pipeline: Pipeline, address: str, token: str | None = None, *, title: str = "pipeline"
) -> AsyncIterator[str]:
    """Serve the page of a pipeline that is about to run on this loop, while the block lasts; yields its URL.

    `address` is `HOST:PORT`. Beyond this machine a `token` is needed, which every request must then bring along.
    """
    with _extra():
        from speciate.page.live import Live  # noqa: PLC0415  # what follows needs the extra
        from speciate.page.server import serve  # noqa: PLC0415

    async with serve(Live(pipeline, asyncio.get_running_loop(), title), address, token) as url:
        yield url


@asynccontextmanager
async def showing(stopped: Stopped, address: str, token: str | None = None) -> AsyncIterator[str]:
    """Serve the page of a state that was left behind, as `serving` does that of a pipeline."""
    with _extra():
        from speciate.page.server import serve  # noqa: PLC0415  # needs the extra

    async with serve(stopped, address, token) as url:
        yield url


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise PluginError(f"the page needs {error.name}: pip install 'speciate[page]'") from error
