"""Model bundles: a folder with a fitted encoder and head, checked byte by byte before anything of it is used.

`bundle.json` is the manifest, `head.state` the head, and the encoder's files lie beside them; `card.md` is for people.
Nothing in a bundle is ever executed: it is JSON, a sealed struct, and whatever plain format the encoder's plugin reads.
"""

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec

from speciate.card import card_text
from speciate.errors import BundleError, ConfigError, StateDamagedError
from speciate.files import fsync_directory, make_directory, sync_file, writing
from speciate.sealed import digest, seal, unseal
from speciate.stages import Encoder
from speciate_schemas import BundleManifest, Card, HeadState, SealedFile, decode, encode

MANIFEST, HEAD, CARD = "bundle.json", "head.state", "card.md"
LARGEST_MANIFEST = 16 << 20
PIECE = 1 << 20
OUR_FILES = rf"{re.escape(MANIFEST)}|{re.escape(HEAD)}|{re.escape(CARD)}|encoder-.*"
UNKNOWN = "0" * 64
"""Stands for a hash that is not known yet."""


@dataclass(frozen=True)
class Bundle:
    """A bundle whose every byte is as it was written."""

    path: Path
    manifest: BundleManifest

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a bundle and verify it.

        Raises:
            ConfigError: if there is none.
            BundleError: if it is of another version, damaged, or its parts do not belong together.
        """
        bundle = cls(Path(path), _read_manifest(Path(path)))
        bundle._verify()
        return bundle

    def encoder_section(self) -> dict[str, Any] | None:
        """The encoder as a section of a configuration, its files where they are now; None for a head of features."""
        if self.manifest.encoder is None:
            return None
        files = {option: str(self.path / name) for option, name in self.manifest.encoder_files.items()}
        return {**self.manifest.encoder, **files}

    def head_state(self) -> HeadState:
        """The head as it was fitted."""
        return self._head

    @cached_property
    def _head(self) -> HeadState:
        # Once: verifying, choosing its plugins and the first task all ask for it, and it may be large.
        try:
            state: HeadState = unseal((self.path / HEAD).read_bytes(), HeadState)[0]
        except (OSError, StateDamagedError) as error:
            raise self._damaged(f"{HEAD}: {error}") from error
        if state.dimension != self.manifest.dimension:
            raise self._damaged(
                f"its head takes {state.dimension} features, its manifest says {self.manifest.dimension}"
            )
        return state

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuse a loaded encoder that gives other features than the head takes."""
        if encoder.dimension != self.manifest.dimension:
            raise self._damaged(
                f"its encoder gives {encoder.dimension} features, its head takes {self.manifest.dimension}"
            )

    def _verify(self) -> None:
        manifest = self.manifest
        if manifest.fingerprint != _fingerprint(manifest):
            raise self._damaged(f"{MANIFEST} contradicts itself: its fingerprint is of something else")
        missing = {HEAD, *manifest.encoder_files.values()} - manifest.files.keys()
        if missing:
            raise self._damaged(f"{MANIFEST} has no hash of {min(missing)}")
        if (twice := manifest.encoder_files.keys() & (manifest.encoder or {}).keys()) or (
            manifest.encoder is None and manifest.encoder_files
        ):
            raise self._damaged(f"{MANIFEST} contradicts itself about the encoder's {', '.join(twice) or 'files'}")
        for name, sealed in manifest.files.items():
            self._verify_file(name, sealed)
        self.head_state()

    def _verify_file(self, name: str, sealed: SealedFile) -> None:
        try:
            # Before it is read: something that never ends may stand in its place.
            about = (self.path / name).stat()
            if not stat.S_ISREG(about.st_mode) or about.st_size != sealed.bytes:
                raise self._damaged(f"{name} has {about.st_size} bytes instead of {sealed.bytes}")
            found = _seal_of(self.path / name)
        except OSError as error:
            raise self._damaged(f"cannot read {name}: {error.strerror}") from error
        if found != sealed:
            raise self._damaged(f"the bytes of {name} are not those that were written")

    def _damaged(self, reason: str) -> BundleError:
        return BundleError(f"the model {self.path} cannot be used: {reason}; copy or fit it again")


def is_bundle(path: Path) -> bool:
    """Whether a path is a bundle, whole or not."""
    return (path / MANIFEST).is_file()


def check_free(path: Path) -> None:
    """A bundle is never written over anything."""
    if not path.name:
        raise ConfigError(f"{path} is no name for something new: choose another path")
    if os.path.lexists(path):
        raise ConfigError(f"{path} exists: choose another path, or remove it first")


def write_bundle(
    path: Path,
    *,
    encoder: Mapping[str, Any] | None,
    files: Mapping[str, Path],
    head: HeadState,
    card: Card,
    plugins: Mapping[str, str],
) -> BundleManifest:
    """Write a bundle: whole or not at all.

    `encoder` is its section without the options that name files; `files` are those, and the files to copy.
    """
    check_free(path)
    temporary = path.with_name(f"{path.name}.tmp")
    with writing(path), _room(temporary):
        # By the option, not by what the file was called: that may be anything, or the same for two of them.
        names = {option: f"encoder-{option}{_suffix(source)}" for option, source in files.items()}
        for option, source in files.items():
            shutil.copyfile(source, temporary / names[option])
        (temporary / HEAD).write_bytes(seal(head))
        manifest = BundleManifest(
            sha256=UNKNOWN,
            encoder=None if encoder is None else dict(encoder),
            encoder_files=names,
            dimension=head.dimension,
            files={name: _seal_of(temporary / name) for name in sorted({HEAD, *names.values()})},
            fingerprint=UNKNOWN,
            plugins=dict(plugins),
            card=card,
        )
        manifest = _describe(temporary, msgspec.structs.replace(manifest, fingerprint=_fingerprint(manifest)))
        temporary.rename(path)
        fsync_directory(path.absolute().parent)
    return manifest


@contextlib.contextmanager
def _room(temporary: Path) -> Iterator[None]:
    """An empty folder; a full disk is helped by giving back what a failed attempt took."""
    try:
        _make_room(temporary)
        make_directory(temporary)
        yield
    except OSError:
        with contextlib.suppress(OSError):
            shutil.rmtree(temporary)
        raise


def _make_room(temporary: Path) -> None:
    """Remove what an attempt that was cut off has left, and nothing else."""
    if not temporary.exists():
        return
    foreign = [one.name for one in temporary.iterdir() if not re.fullmatch(OUR_FILES, one.name)]
    if foreign:
        raise ConfigError(f"{temporary} is in the way, with {min(foreign)} in it: move it, or choose another output")
    shutil.rmtree(temporary)


def _describe(folder: Path, manifest: BundleManifest) -> BundleManifest:
    """Write the manifest and the card, and make all files survive a crash; the manifest as it is written."""
    data = msgspec.json.format(encode(manifest, "json"), indent=1)
    own = digest(data)
    (folder / MANIFEST).write_bytes(data.replace(UNKNOWN.encode(), own.encode(), 1))
    (folder / CARD).write_text(card_text(manifest), "utf-8")
    for one in folder.iterdir():
        with one.open("rb+") as file:
            sync_file(file)
    fsync_directory(folder)
    return msgspec.structs.replace(manifest, sha256=own)


def _suffix(source: Path) -> str:
    """A file's ending, by which an encoder may tell its format; without anything a plain name cannot have."""
    return re.sub(r"[^A-Za-z0-9._-]", "", source.suffix, flags=re.ASCII)


def _read_manifest(path: Path) -> BundleManifest:
    file = path / MANIFEST
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            raise ConfigError(f"{path} is no model: {MANIFEST} is no file; give a folder that `speciate fit` wrote")
        if about.st_size > LARGEST_MANIFEST:
            raise BundleError(f"{file} has more than {LARGEST_MANIFEST} bytes: it is no manifest of a model")
        data = file.read_bytes()
        found: BundleManifest = decode(data, BundleManifest, "json")
    except OSError as error:
        raise ConfigError(
            f"{path} is no model: cannot read {MANIFEST}: {error.strerror}; give a folder that `speciate fit` wrote"
        ) from error
    except msgspec.DecodeError as error:
        raise BundleError(f"{file} is not what this version writes: {error}; fit the model again") from error
    # Its own hash stands in front, and is none of what was hashed.
    if found.sha256 != digest(data.replace(found.sha256.encode(), UNKNOWN.encode(), 1)):
        raise BundleError(f"the model {path} cannot be used: {MANIFEST} was changed; copy or fit it again")
    return found


def _seal_of(path: Path) -> SealedFile:
    hashed, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            hashed.update(piece)
            size += len(piece)
    return SealedFile(bytes=size, sha256=hashed.hexdigest())


def _fingerprint(manifest: BundleManifest) -> str:
    """Of everything that decisions depend on, and not of the card: it tells when it was made and how long it took."""
    parts = (manifest.encoder, manifest.encoder_files, manifest.dimension, manifest.files)
    return digest(msgspec.json.encode(parts, order="deterministic"))
