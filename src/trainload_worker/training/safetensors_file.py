"""Writes and maps safetensors files with the standard library alone; knows no framework.

The form: 8 bytes, little-endian, the length of the header; the header, one JSON object of
`name: {"dtype", "shape", "data_offsets"}` and of texts under `__metadata__`, padded with blanks;
the values of one tensor after the other, little-endian and row-major.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any, Dict, Mapping

from trainload_worker.errors import CheckpointError

HEADER_LIMIT = 100_000_000
"""The longest header that other readers of the format accept."""
_METADATA = "__metadata__"
_SIZES = {"F32": 4}


@dataclass(frozen=True)
class Tensor:
    """Values in a buffer, little-endian and row-major."""

    shape: tuple[int, ...]
    data: Any
    dtype: str = "F32"
    owner: Any = None
    """Whatever must live as long as the buffer."""

    @property
    def byte_count(self) -> int:
        """The length of the buffer that the shape asks for."""
        return math.prod(self.shape) * _SIZES[self.dtype]


Tensors = Dict[str, Tensor]


def save_tensors(path: str, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> int:
    """Writes the file beside its place and renames it when it is whole; its size in bytes."""
    header = _make_header(tensors, metadata)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            file.write(struct.pack("<Q", len(header)))
            file.write(header)
            for tensor in tensors.values():
                file.write(tensor.data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(part, path)
    except OSError as error:
        try:
            os.unlink(part)
        except OSError:
            pass  # it was never made
        raise CheckpointError(f"cannot write {path}: {error.strerror}") from error
    return size


def load_tensors(path: str) -> tuple[Tensors, dict[str, str]]:
    """The tensors of a file, mapped into memory, and its metadata; CheckpointError if it is none.

    The memory is private and writable, since torch wraps no other; the file is never changed.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < 8:
                raise CheckpointError(f"{path}: {size} bytes are no safetensors file")
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from error
    (length,) = struct.unpack("<Q", mapped[:8])
    if length > min(HEADER_LIMIT, size - 8):
        raise CheckpointError(f"{path} is cut short or no safetensors file")
    try:
        header = json.loads(bytes(mapped[8 : 8 + length]))
        metadata = header.pop(_METADATA, {})
        values = mapped[8 + length :]
        _check_apart(header)
        tensors = {str(name): _slice(values, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error
    return tensors, dict(metadata)


def _make_header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.byte_count
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    # The values begin at a multiple of eight, as readers that map the file like it.
    return text.ljust(-(-len(text) // 8) * 8)


def _check_apart(header: Mapping[str, Any]) -> None:
    """ValueError where the values of two tensors overlap: torch would train both at once."""
    last = 0
    for begin, end in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if begin < last:
            raise ValueError(f"values from {begin} to {end} belong to two tensors")
        last = end


def _slice(values: memoryview, entry: Any) -> Tensor:
    begin, end = entry["data_offsets"]
    tensor = Tensor(shape=tuple(entry["shape"]), data=values[begin:end], dtype=entry["dtype"])
    if not 0 <= begin <= end <= len(values) or tensor.byte_count != end - begin:
        raise ValueError(f"values from {begin} to {end} do not fit their shape or the file")
    return tensor
