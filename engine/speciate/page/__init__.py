"""The operator's side of a run, over HTTP: metrics and health, on a thread of its own.

Whoever asks for it imports it, and the extra `page` with it; a run without a page knows nothing of it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from speciate.errors import PluginError
from speciate.pipeline import Pipeline


@asynccontextmanager
async def serving(pipeline: Pipeline, address: str, token: str | None = None) -> AsyncIterator[str]:
    """Serve the page of a pipeline that runs on this loop while the block lasts; yields its URL.

    `address` is `HOST:PORT`. Beyond this machine a `token` is needed, which every request must then bring along.
    """
    try:
        from speciate.page.server import serve  # noqa: PLC0415  # needs the extra
    except ModuleNotFoundError as error:
        raise PluginError(f"the page needs {error.name}: pip install 'speciate[page]'") from error

    async with serve(pipeline, address, token) as url:
        yield url
