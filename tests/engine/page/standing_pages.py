"""A pipeline that stands still, as the page sees it, and bytes that are sent to its page as they are."""

import asyncio
import contextlib

from speciate.instruments import Instruments
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
