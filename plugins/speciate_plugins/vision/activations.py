"""The trunk's activations of many images, kept in a folder.

activations.f32      an image after the other: as it is, then mirrored if that is kept, too
activations.json     how many of them are whole, and what they are of

They are kept in full precision: half of it would save half of the disk, but what the tail makes of them could then no
longer be compared with what the whole encoder makes of the same images.
"""

import math
import os
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from speciate.files import make_directory, sync_file, write_atomically, writing
from speciate_schemas import Strict


class Kept(Strict, frozen=True):
    """What is in the file of activations."""

    fingerprint: str
    """Of all that they depend on, short of the images."""
    images: int = 0
    shape: tuple[int, ...] = ()
    """Of what is kept of an image."""
    seconds: float = 0.0
    """Spent on computing them."""


class Activations:
    """Appends, so that after a crash there are as many as were appended before, and gives them back."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._data = folder / "activations.f32"
        self._about = folder / "activations.json"
        with writing(folder):
            make_directory(folder)
        self._kept = Kept(fingerprint=fingerprint)
        found = self._found()
        if found is not None and found.fingerprint == fingerprint:
            self._kept = found

    @property
    def images(self) -> int:
        """How many images there are activations of."""
        return self._kept.images

    @property
    def seconds(self) -> float:
        """How long it took to compute them."""
        return self._kept.seconds

    def append(self, activations: Tensor, seconds: float) -> None:
        """Keep those of some images, (B, …); on return they survive a crash."""
        shape = tuple(activations.shape[1:])
        with writing(self._data):
            # Not opened for appending: there may be more in the file than was ever counted.
            with self._data.open("r+b" if self._data.exists() else "w+b") as file:
                file.truncate(self._bytes())
                file.seek(0, os.SEEK_END)
                file.write(activations.float().contiguous().cpu().numpy().data)
                sync_file(file)
            self._kept = msgspec.structs.replace(
                self._kept,
                images=self._kept.images + len(activations),
                shape=shape,
                seconds=self._kept.seconds + seconds,
            )
            write_atomically(self._about, msgspec.json.encode(self._kept))

    def tensor(self) -> Tensor:
        """All of them, (N, …), mapped into memory."""
        if not self.images:
            return torch.empty(0)
        numbers = self._bytes() // torch.float32.itemsize
        # Not a mapping of its own: that would have to fit into memory, though nothing is ever written to it.
        mapped = torch.from_file(str(self._data), shared=True, size=numbers, dtype=torch.float32)
        return mapped.reshape(self.images, *self._kept.shape)

    def _bytes(self) -> int:
        return self._kept.images * math.prod(self._kept.shape) * torch.float32.itemsize

    def _found(self) -> Kept | None:
        try:
            kept = msgspec.json.decode(self._about.read_bytes(), type=Kept)
            size = self._data.stat().st_size
        except (OSError, msgspec.DecodeError):
            return None
        whole = size >= kept.images * math.prod(kept.shape) * torch.float32.itemsize
        return kept if whole else None
