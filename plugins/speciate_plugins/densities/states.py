"""Reading a density's state: each array by name, refused if it is not there or of another shape."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.errors import StateMismatchError
from speciate_schemas import Array


def take(arrays: Mapping[str, Array], name: str, *shape: int | None) -> npt.NDArray[Any]:
    """An array of a state; None in the shape is any length."""
    if name not in arrays:
        raise StateMismatchError(f"the state has no array {name!r}: it is not a state of this density")
    found = arrays[name].numpy()
    if len(found.shape) != len(shape) or any(
        wanted not in (None, length) for wanted, length in zip(shape, found.shape, strict=True)
    ):
        wanted_shape = " × ".join("any" if length is None else str(length) for length in shape) or "a number"
        raise StateMismatchError(
            f"the state's array {name!r} has shape {found.shape}, not {wanted_shape}: it is not a state of this density"
        )
    if not np.isfinite(found).all():
        raise StateMismatchError(f"the state's array {name!r} holds NaN or infinity: it is not a state of this density")
    return found
