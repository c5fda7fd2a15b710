"""Arrays of npy files: reads their headers by hand, and the range of labels and tokens.

The format is NumPy's NEP 1; no library is needed to read it.
"""

import ast
import math
import mmap
import struct
from pathlib import Path
from typing import Any

from trainload.errors import WorkloadError
from trainload_worker.protocol.data import NpyArray

FEATURES, LABELS = "features.npy", "labels.npy"
_LONGEST_HEADER = 10_000
"""As NumPy's own reader takes by default: a longer text can bring its parser down."""
_MAGIC = b"\x93NUMPY"
_INTEGERS = {
    "|u1": "B", "|i1": "b", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I", "<i8": "q", "<u8": "Q",
}  # fmt: skip
_FLOATS = {"<f4": "f", "<f8": "d"}


def holds_whole_numbers(array: NpyArray) -> bool:
    """Whether its values are integers."""
    return array.dtype in _INTEGERS


def read_range(array: NpyArray) -> tuple[int, int]:
    """Least and largest value of an array of integers."""
    code: Any = _INTEGERS[array.dtype]
    with (
        Path(array.path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as whole,
        whole[array.offset : array.offset + values_bytes(array)] as part,
        part.cast(code) as values,
    ):
        return min(values), max(values)


def values_bytes(array: NpyArray) -> int:
    """Length of its values."""
    code = _INTEGERS.get(array.dtype) or _FLOATS[array.dtype]
    return math.prod(array.shape) * struct.calcsize(f"={code}")


def read_header(path: Path) -> NpyArray:
    """What an npy file says about itself; WorkloadError where it cannot be used here."""
    try:
        if path.exists() and not path.is_file():
            raise WorkloadError(f"{path} is no plain file; give a file")
        with path.open("rb") as file:
            lead = file.read(8)
            if lead[:6] != _MAGIC or len(lead) < 8:
                raise WorkloadError(f"{path}: no npy file")
            width = 2 if lead[6] == 1 else 4
            length = int.from_bytes(file.read(width), "little")
            if length > _LONGEST_HEADER:
                raise WorkloadError(f"{path}: an npy header of {length:,} bytes; none is so long")
            header = ast.literal_eval(file.read(length).decode("latin-1").strip())
            dtype, shape = header["descr"], tuple(header["shape"])
            if not all(type(size) is int and 0 <= size < 1 << 48 for size in shape):
                raise ValueError("a shape holds counts")
            ordered = not header["fortran_order"] or len(shape) < 2
    except FileNotFoundError:
        raise WorkloadError(f"no such array: {path}") from None
    except OSError as error:
        raise WorkloadError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        raise WorkloadError(f"{path}: the npy header cannot be read") from None
    if not isinstance(dtype, str) or dtype not in {**_INTEGERS, **_FLOATS}:
        raise WorkloadError(
            f"{path}: values of type {dtype!r}; save it as float32, uint8 or int64, little-endian"
        )
    if not ordered:
        raise WorkloadError(f"{path}: columns first; save numpy.ascontiguousarray of it")
    array = NpyArray(path=str(path.resolve()), dtype=dtype, shape=shape, offset=8 + width + length)
    present = path.stat().st_size - array.offset
    if not shape or present != values_bytes(array) or present == 0:
        raise WorkloadError(
            f"{path}: {present} bytes of values, where its header says {list(shape)} of {dtype}"
        )
    return array


def scan_npy(path: Path) -> tuple[NpyArray, NpyArray | None, int]:
    """Features, labels where there are any, and the number of classes that those show."""
    folder = path.parent if path.is_file() else path
    features = read_header(folder / FEATURES)
    if not (folder / LABELS).exists():
        return features, None, 0
    labels = read_header(folder / LABELS)
    if not holds_whole_numbers(labels) or len(labels.shape) != 1:
        raise WorkloadError(f"{labels.path}: labels must be one row of whole numbers")
    if labels.shape[0] != features.shape[0]:
        raise WorkloadError(
            f"{folder}: {features.shape[0]} rows of features, {labels.shape[0]} labels"
        )
    least, largest = read_range(labels)
    if least < 0:
        raise WorkloadError(f"{labels.path}: label {least} is below 0")
    return features, labels, max(2, largest + 1)
