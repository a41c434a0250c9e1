"""A pipeline that stands still, as the page sees it, and bytes that are sent to its page as they are.

And pages of any pipeline that may be asked for however much.
"""

import asyncio
import contextlib

import pytest

from speciate.instruments import Instruments
from speciate.page import guard, live
from speciate.running import Unready

TOKEN = "correct-horse-battery-staple"


class Standing:
    """A pipeline as the page sees it."""

    def __init__(self) -> None:
        self.counted = Instruments()
        self.reasons: list[Unready] = []

    def instruments(self):
        return self.counted

    def unready(self):
        return self.reasons

    def status(self):
        return None

    def universes(self):
        return []

    def uncontrollable(self):
        return "nothing runs here"

    def refused(self, reason):
        return self.counted.value("speciate_page_refusals_total", reason).value

    async def until_refused(self, reason, count=1):
        """Wait until so many were."""
        async with asyncio.timeout(30):
            while self.refused(reason) < count:  # noqa: ASYNC110  # another thread's
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def at_no_cost(page):
    """Open a page that nobody is put off by, though the machine be slow: what asking may cost is tried by itself."""
    async with contextlib.AsyncExitStack() as stack:
        # While it opens only: then it has its shares, and others have theirs.
        with pytest.MonkeyPatch.context() as patch:
            for module, share in ((live, "LOOK_SHARE"), (live, "WORK_SHARE"), (guard, "SHARE"), (guard, "SMALL_SHARE")):
                patch.setattr(module, share, 1e3)
            url = await stack.enter_async_context(page)
        yield url


async def raw(client, data):
    """Send bytes as they are; all that comes back until the other side closes."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    with contextlib.suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
    answer = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            answer = await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return answer
