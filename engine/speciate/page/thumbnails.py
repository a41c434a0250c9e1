"""Thumbnails: addresses for them, and those shown a moment ago, so that the pipeline is not asked for each."""

import asyncio
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import NamedTuple
from urllib.parse import urlencode

from speciate.exemplars import Kept
from speciate.page.subject import Where
from speciate_schemas.page import ExemplarView

MOST_BYTES = 16 << 20


class Thumbnail(NamedTuple):
    """A JPEG, and what tells it from others that had its address."""

    content: bytes
    version: str


async def finished(exemplars: Iterable[Kept]) -> None:
    """Wait for the pictures that are still being made, without anybody else waiting."""
    promised = [made for one in exemplars if isinstance(made := one.picture, Future)]
    if promised:
        await asyncio.to_thread(wait, promised)


class Thumbnails:
    """The newest thumbnails by category and the record they are of; bounded in bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Where, int, int], Thumbnail] = OrderedDict()
        self._bytes = 0

    def find(self, where: Where, category: int, sequence: int) -> Thumbnail | None:
        """One that was shown before."""
        return self._kept.get((where, category, sequence))

    def keep(self, where: Where, category: int, one: Kept) -> Thumbnail | None:
        """The thumbnail of an exemplar that is `finished`, if it has one; it is found from now on."""
        content = one.thumbnail
        if content is None:
            return None
        key = (where, category, one.sequence)
        kept = self._kept.get(key)
        if kept is None or kept.content is not content:
            self._bytes += len(content) - (0 if kept is None else len(kept.content))
            kept = self._kept[key] = Thumbnail(content, f"{zlib.crc32(content):08x}")
        self._kept.move_to_end(key)
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._kept.popitem(last=False)[1].content)
        return kept

    def view(self, where: Where, category: int, one: Kept) -> ExemplarView:
        """An exemplar, with the address of its picture."""
        kept = self.keep(where, category, one)
        address = None
        if kept is not None:
            named = {"task": where.task, **({} if where.stream is None else {"stream": where.stream})}
            address = f"/api/thumbnails/{category}/{one.sequence}?{urlencode({**named, 'v': kept.version})}"
        return ExemplarView(id=one.id, stream=one.stream, sequence=one.sequence, time=one.time, thumbnail=address)
