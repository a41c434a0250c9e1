"""The pace at which requests are taken: how often, and how much of a processor's time they may take."""

import asyncio

SHARE = 0.06
"""Of a processor's time, for requests of those who may ask. Accepting and waking up, which cannot be counted for each
request, come on top of it: up to as much again where each has a connection of its own."""
SMALL_SHARE = 0.03
"""For those of whom fewer, or none, need be answered."""
PACE_SECONDS = 0.005
"""Requests are taken no faster than this, one after another: whoever hammers takes his own time, not the pipeline's."""
BURST_SECONDS = 1.0
"""As many as fit into this time are taken at once, if there were none before: a gallery is many pictures."""
QUEUE_SECONDS = 2.0
"""Nobody is let wait for longer."""


class CrowdedError(Exception):
    """Too many wait already."""


class Pace:
    """Takes requests one after another; together they take a share of a processor's time at most."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._free_at = 0.0

    async def take_turn(self) -> None:
        """Wait for it; raises `CrowdedError` at once if that would be too long."""
        now = asyncio.get_running_loop().time()
        turn = max(now - BURST_SECONDS, self._free_at + PACE_SECONDS)
        if turn - now > QUEUE_SECONDS:
            raise CrowdedError("too many ask at once: try later")
        self._free_at = turn
        if turn > now:
            await asyncio.sleep(turn - now)

    def charge(self, seconds: float) -> None:
        """A request took so much of the processor's time: the next ones make up for what its turn did not allow for."""
        self._free_at += max(0.0, seconds / self._share - PACE_SECONDS)
