"""Room for pixels: what all threads together may be decoding at once, however many threads there are."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Room:
    """A number of pixels that is shared. What needs more than all of it has it to itself."""

    def __init__(self, pixels: int) -> None:
        self._most = pixels
        self._taken = 0
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, pixels: int) -> Iterator[None]:
        """Wait until there is room for so many, and hold it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + pixels <= self._most)
            self._taken += pixels
        try:
            yield
        finally:
            with self._changed:
                self._taken -= pixels
                self._changed.notify_all()
