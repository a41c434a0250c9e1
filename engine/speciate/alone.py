"""Alone: the share of a process that has its source to itself."""

import asyncio

from speciate.errors import FencedError


class Alone:
    """One task, and it is ours."""

    def __init__(self) -> None:
        self._told = False

    async def join(self) -> int:
        """See `Share`."""
        return 1

    async def changed(self) -> frozenset[int]:
        """See `Share`. Known at once; it never changes."""
        if self._told:
            await asyncio.get_running_loop().create_future()
        self._told = True
        return frozenset({0})

    def keep_ready(self, numbers: frozenset[int]) -> None:
        """See `Share`. There is nobody to tell."""

    async def rejoin(self) -> None:
        """See `Share`. There is no group that could settle who is right."""
        raise FencedError(
            "another process writes to the same outputs: stop one of them, or let them share the input as a group"
        )

    async def leave(self) -> None:
        """See `Share`. There is nobody to leave."""
