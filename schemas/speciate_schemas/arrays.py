"""Arrays on the wire: a dtype, a shape and raw little-endian bytes, decoded without a copy."""

import math
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


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An n-dimensional array: C order, little-endian. In JSON the bytes are base64."""

    dtype: Annotated[DType, msgspec.Meta(description="Element type.")]
    shape: Annotated[tuple[Extent, ...], msgspec.Meta(description="Extent of each axis, outermost first.")]
    data: Annotated[memoryview, msgspec.Meta(description="The elements, C order, little-endian.")]

    def __post_init__(self) -> None:
        """Refuse a buffer that does not hold exactly the elements the shape promises."""
        expected = math.prod(self.shape) * np.dtype(self.dtype).itemsize
        if self.data.nbytes != expected:
            raise ValueError(
                f"array of dtype {self.dtype} and shape {list(self.shape)} needs {expected} bytes of data, "
                f"got {self.data.nbytes}"
            )

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Self:
        """Wrap any array-like; a contiguous little-endian array is not copied."""
        array = np.asarray(values)
        little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        # A view of bytes cannot be cast from an array without elements.
        data = little_endian.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
        # numpy's dtype names are wider than ours; msgspec checks them again on decoding.
        name: Any = array.dtype.name
        if name not in DType.__args__:  # type: ignore[attr-defined]  # a Literal's values, known to typing only
            raise ValueError(f"dtype {name} cannot travel; convert to one of {', '.join(DType.__args__)}")  # type: ignore[attr-defined]
        return cls(dtype=name, shape=array.shape, data=data)

    def numpy(self) -> npt.NDArray[Any]:
        """The array as NumPy sees it: a read-only view of the received bytes where the machine allows."""
        little_endian = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(self.data, dtype=little_endian).reshape(self.shape)
