"""Photographs of Oxford-IIIT Pet, and features recorded of them, where they are at hand: they are not ours to ship."""

import os
from pathlib import Path

import pytest

from fresh import REPOSITORY

DATA = Path(os.environ.get("SPECIATE_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
PHOTOGRAPHS = DATA / "pets-images"
"""A folder a breed."""
FEATURES = DATA / "pets-efficientnet_lite0.npz"
"""Of the originals, by their names."""

needs_photographs = pytest.mark.skipif(
    not PHOTOGRAPHS.is_dir(), reason=f"needs photographs of Oxford-IIIT Pet in {PHOTOGRAPHS}, see SPECIATE_TEST_DATA"
)
needs_features = pytest.mark.skipif(
    not FEATURES.is_file(), reason=f"needs features of Oxford-IIIT Pet in {FEATURES}, see SPECIATE_TEST_DATA"
)
