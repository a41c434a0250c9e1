"""Snapshots: the state of a task and the commit it belongs to, sealed, newest whole one first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from speciate.errors import StateDamagedError
from speciate.logs import get_logger
from speciate.sealed import digest, seal, unseal_with_bytes
from speciate.stages import StateStore
from speciate_schemas import Commit, HeadState, SnapshotManifest, TaskState, encode
from speciate_schemas.framing import pack

log = get_logger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """A whole snapshot, read back."""

    manifest: SnapshotManifest
    state: TaskState

    @property
    def commit(self) -> Commit:
        """The commit at which the state was taken."""
        return self.manifest.commit

    @property
    def heads(self) -> dict[str | None, HeadState]:
        """The heads by stream, each whole; without a name where all streams share one."""
        head = self.state.head
        if self.manifest.config.get("run", {}).get("universe") != "stream":
            return {None: head}
        return {name: msgspec.structs.replace(one, shared=head.shared) for name, one in self.state.streams.items()}


def build(commit: Commit, state: TaskState, *, config: dict[str, Any], plugins: dict[str, str]) -> bytes:
    """The bytes of a snapshot. They depend on their content alone: equal states give equal bytes."""
    encoded = encode(state)
    manifest = SnapshotManifest(
        commit=commit, config=config, plugins=plugins, state_bytes=len(encoded), state_sha256=digest(encoded)
    )
    return seal(manifest) + pack(encoded)


def parse(data: bytes) -> Snapshot:
    """A snapshot from its bytes; raises `StateDamagedError` unless every bit is in place."""
    (manifest, _), (state, encoded) = unseal_with_bytes(data, SnapshotManifest, TaskState)
    if digest(encoded) != manifest.state_sha256:
        raise StateDamagedError("the state's digest does not match")
    return Snapshot(manifest, state)


def whole_snapshots(store: StateStore) -> Iterator[Snapshot]:
    """The snapshots that can be trusted, newest first; a damaged one is passed over with a warning.

    Each time the newest of those that there are by then: while another process runs, it removes what was just listed.
    What is gone was removed, and there are newer ones; what cannot be read though it is listed is damaged.
    """
    tried: set[int] = set()
    while untried := set(store.snapshots()) - tried:
        sequence = max(untried)
        tried.add(sequence)
        try:
            yield parse(store.load_snapshot(sequence))
        except StateDamagedError as error:
            told = {"sequence": sequence, "store": store.describe(), "reason": str(error)}
            if sequence in store.snapshots():
                log.warning("snapshot is damaged, trying the one before it", **told)
            else:
                log.debug("snapshot was removed meanwhile, looking again", **told)


def newest_whole(store: StateStore) -> Snapshot | None:
    """The newest snapshot that can be trusted, if there is one."""
    return next(whole_snapshots(store), None)


def prune(store: StateStore, keep: int) -> None:
    """Remove all but the newest snapshots."""
    for sequence in store.snapshots()[:-keep]:
        store.remove_snapshot(sequence)
