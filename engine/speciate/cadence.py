"""When a commit is due, and when a snapshot is."""

import time

from speciate_schemas import CommitOptions

SHORTEST_REST = 0.05
"""Seconds between two looks whether a snapshot that is late can be begun."""


class Cadence:
    """Counts events and time since the last commit and the last snapshot."""

    def __init__(self, options: CommitOptions, *, committed: int, snapshot: int, always_snapshot: bool) -> None:
        self._options = options
        self._committed = committed
        self._snapshot = snapshot
        self._always_snapshot = always_snapshot
        self._since = self._saved = time.perf_counter()

    def time_left(self, sequence: int) -> float | None:
        """Seconds until what was decided must be committed, or what was committed saved; None if all of it is."""
        if sequence > self._committed:
            return max(0.0, self._since + self._options.interval_ms / 1000.0 - time.perf_counter())
        if sequence == self._committed and self.unsaved(sequence):
            rest = max(SHORTEST_REST, self._options.interval_ms / 1000.0)
            return max(0.0, self._snapshot_time(), self._since + rest - time.perf_counter())
        return None

    def due(self, sequence: int) -> bool:
        """True if enough events or time have passed."""
        left = self.time_left(sequence)
        return left is not None and (left == 0.0 or sequence - self._committed >= self._options.events)

    def snapshot_due(self, sequence: int, *, saving: bool) -> bool:
        """True if the state should be saved with this commit; never while a snapshot is still being written."""
        if self._always_snapshot:
            return True
        late = self.unsaved(sequence) and self._snapshot_time() <= 0.0
        return not saving and (late or sequence - self._snapshot >= self._options.snapshot_events)

    def unsaved(self, sequence: int) -> bool:
        """True if the newest snapshot does not hold everything up to here."""
        return sequence > self._snapshot

    def note(self, sequence: int, *, snapshot: bool) -> None:
        """Remember that a commit was made."""
        self._committed, self._since = sequence, time.perf_counter()
        if snapshot:
            self._snapshot, self._saved = sequence, self._since

    def _snapshot_time(self) -> float:
        """Seconds until the state must be saved."""
        return self._saved + self._options.snapshot_interval_ms / 1000.0 - time.perf_counter()
