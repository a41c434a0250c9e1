"""Sealed records: a struct in a checksummed frame, so that damage is told from data."""

import hashlib
from pathlib import Path
from typing import Any

import msgspec

from speciate.errors import StateDamagedError
from speciate.files import write_atomically, writing
from speciate_schemas import decode, encode
from speciate_schemas.framing import Frame, next_frame, pack


def digest(data: bytes | memoryview) -> str:
    """The fingerprint of some bytes."""
    return hashlib.sha256(data).hexdigest()


def seal(*records: Any) -> bytes:
    """Structs, one after another, each in a checksummed frame."""
    return b"".join(pack(encode(record)) for record in records)


def unseal(data: bytes, *kinds: Any) -> list[Any]:
    """The structs that `seal` wrote, of these kinds and no others.

    Raises:
        StateDamagedError: if a byte is missing, changed or too many, or a record is of another kind or version.
    """
    return [record for record, _ in unseal_with_bytes(data, *kinds)]


def unseal_with_bytes(data: bytes, *kinds: Any) -> list[tuple[Any, memoryview]]:
    """As `unseal`, each struct with the very bytes it was read from."""
    records, place = [], 0
    for kind in kinds:
        frame = next_frame(data, place, final=True)
        if not isinstance(frame, Frame) or frame.damage is not None:
            raise StateDamagedError(f"{frame.damage if isinstance(frame, Frame) else 'it is cut short'}")
        try:
            records.append((decode(frame.payload, kind), frame.payload))
        except msgspec.DecodeError as error:
            raise StateDamagedError(f"it does not hold what this version writes: {error}") from error
        place = frame.end
    if place != len(data):
        raise StateDamagedError(f"{len(data) - place} bytes too many")
    return records


def save_sealed(path: Path, record: Any) -> None:
    """Write one sealed struct to a file, atomically."""
    with writing(path):
        write_atomically(path, seal(record))


def load_sealed(path: Path, kind: Any) -> Any:
    """Read one sealed struct from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StateDamagedError(f"cannot read {path}: {error.strerror}") from error
    try:
        return unseal(data, kind)[0]
    except StateDamagedError as error:
        raise StateDamagedError(f"{path} is damaged or not a saved state: {error}") from error
