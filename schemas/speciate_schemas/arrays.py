"""Arrays on the wire: a dtype, a shape and raw little-endian bytes, decoded without a copy."""

import math
import sys
from typing import Annotated, Any, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt

DType = Literal[
    "bool",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

Extent = Annotated[int, msgspec.Meta(ge=0)]
MAX_AXES = 64
"""NumPy's own limit; a longer shape could be received but never looked at."""


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An n-dimensional array: C order, little-endian. In JSON the bytes are base64."""

    dtype: Annotated[DType, msgspec.Meta(description="Element type.")]
    shape: Annotated[
        tuple[Extent, ...],
        msgspec.Meta(max_length=MAX_AXES, description="Extent of each axis, outermost first."),
    ]
    data: Annotated[memoryview, msgspec.Meta(description="The elements, C order, little-endian.")]

    def __post_init__(self) -> None:
        """Refuse a buffer that does not hold exactly the elements the shape promises."""
        itemsize = np.dtype(self.dtype).itemsize
        # An array without elements needs no bytes, yet NumPy refuses extents no machine could address.
        if math.prod(extent or 1 for extent in self.shape) * itemsize > sys.maxsize:
            raise ValueError(f"array of shape {list(self.shape)} is larger than any machine")
        expected = math.prod(self.shape) * itemsize
        if self.data.nbytes != expected:
            raise ValueError(
                f"array of dtype {self.dtype} and shape {list(self.shape)} needs {expected} bytes of data, "
                f"got {self.data.nbytes}"
            )

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Self:
        """Wrap any array-like; a contiguous little-endian array is not copied."""
        array = np.asarray(values)
        # numpy's dtype names are wider than ours; msgspec checks them again on decoding.
        name: Any = array.dtype.name
        if name not in DType.__args__:  # type: ignore[attr-defined]  # a Literal's values, known to typing only
            raise ValueError(f"dtype {name} cannot travel; convert to one of {', '.join(DType.__args__)}")  # type: ignore[attr-defined]
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        # A view of bytes cannot be cast from an array without elements.
        data = little_endian.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        return cls(dtype=name, shape=array.shape, data=data)

    def numpy(self) -> npt.NDArray[Any]:
        """The array as NumPy sees it: a read-only view of the received bytes where the machine allows."""
        little_endian = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(self.data, dtype=little_endian).reshape(self.shape)
