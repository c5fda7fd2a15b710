"""Arrays of npy files as a data set, mapped into memory; the header has been read by the driver."""

from __future__ import annotations

import math
import mmap
import os
import sys
from array import array
from typing import Any, Mapping

from trainload_worker.data.dataset import Buffer, Dataset
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import NpyArray, NpyData

CODES: Mapping[str, str] = {
    "<f4": "f",
    "<f8": "d",
    "|u1": "B",
    "|i1": "b",
    "<i2": "h",
    "<u2": "H",
    "<i4": "i",
    "<u4": "I",
    "<i8": "q",
    "<u8": "Q",
}
"""npy's name of a type -> that of Python's buffers."""


def load_npy(spec: NpyData) -> Dataset:
    """The arrays as rows; float32, uint8 and int64 stay on disk until they are touched."""
    features = _map(spec.features)
    if spec.labels is None:
        return _as_stream(spec, features)
    form = {"f": "float32", "d": "float32", "B": "uint8"}.get(features.format, "int64")
    labels = _as_int64(_map(spec.labels))
    if len(labels) and not 0 <= min(labels) <= max(labels) < spec.classes:
        raise DataError(
            f"{spec.labels.path}: labels from {min(labels)} to {max(labels)}, "
            f"but there are {spec.classes} classes"
        )
    values: Buffer = features
    if form == "int64":
        values = _as_int64(features)
    elif features.format == "d":
        values = array("f", features)
    return Dataset(
        features=values,
        labels=labels,
        groups=array("q", range(len(labels))),
        feature_count=math.prod(spec.shape),
        classes=tuple(map(str, range(spec.classes))),
        form=form,
    )


def _as_stream(spec: NpyData, values: memoryview) -> Dataset:
    steps = spec.shape[0]
    rows = (len(values) - 1) // steps
    if rows < 2:
        raise DataError(f"{spec.features.path}: {len(values)} tokens are under two rows of {steps}")
    tokens = _as_int64(values)[: rows * steps + 1]
    if not 0 <= min(tokens) <= max(tokens) < spec.classes:
        raise DataError(
            f"{spec.features.path}: tokens from {min(tokens)} to {max(tokens)}, "
            f"but the vocabulary has {spec.classes}"
        )
    return Dataset(
        features=tokens,
        labels=array("q"),
        groups=array("q", range(rows)),
        feature_count=steps,
        classes=(),
        form="int64",
        vocabulary=spec.classes,
    )


def _map(spec: NpyArray) -> memoryview:
    if sys.byteorder != "little" or spec.dtype not in CODES:
        raise DataError(f"{spec.path}: values of type {spec.dtype} cannot be read here")
    code: Any = CODES[spec.dtype]
    size = math.prod(spec.shape) * array(code).itemsize
    try:
        with open(spec.path, "rb") as file:
            present = os.fstat(file.fileno()).st_size - spec.offset
            if present < size or size == 0:
                raise DataError(f"{spec.path}: {present} bytes of values, its header says {size}")
            # Private and writable: no page is ever written, but torch wraps no read-only memory.
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except OSError as error:
        raise DataError(f"{spec.path}: {error.strerror}") from error
    values: memoryview = mapped[spec.offset : spec.offset + size].cast(code)
    return values


def _as_int64(values: memoryview) -> Buffer:
    return values if values.format == "q" else array("q", values)
