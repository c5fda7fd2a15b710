"""A checkpoint as the driver sees it: found, read as far as its header, and checked; never loaded.

The form is safetensors: the length of a JSON header in 8 bytes, the header, the values.
"""

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.errors import RecordError
from trainload.record.inside import is_plain, open_inside
from trainload.record.layout import CHECKPOINT, CHECKPOINT_GLOB, MANIFEST
from trainload.record.parts import CheckpointOrigin
from trainload.workload import LayerGraph

FORMAT = "trainload checkpoint 1"
_HEADER_LIMIT = 16 << 20
_RUNNING = ("running_mean", "running_var")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a file says of itself."""

    path: Path
    run_id: str | None
    framework: str | None
    graph: str | None
    graph_sha256: str | None
    epoch: int
    """Epochs that are done."""
    step: int
    shapes: Mapping[str, tuple[int, ...]]
    """Every tensor's shape."""

    @property
    def run_dir(self) -> Path | None:
        """The run directory it stands in; None where it was taken elsewhere."""
        folder = self.path.parent
        return folder if is_plain(folder / MANIFEST) else None

    @property
    def origin(self) -> CheckpointOrigin:
        """What the record of a run that begins from it keeps."""
        return CheckpointOrigin(
            run_id=self.run_id,
            path=str(self.path.resolve()),
            framework=self.framework,
            epoch=self.epoch,
            step=self.step,
        )


def find_checkpoint(place: Path) -> Path:
    """The file itself, or a run directory's last one; RecordError where there is none."""
    if not place.is_dir():
        if not place.exists():
            raise RecordError(f"no such run or checkpoint: {place}")
        return place
    if is_plain(place / CHECKPOINT):
        return place / CHECKPOINT
    kept = filter(is_plain, place.glob(CHECKPOINT_GLOB))
    found = sorted(kept, key=lambda path: (_epoch_of(path.name), path.name))
    if found:
        return found[-1]
    if not is_plain(place / MANIFEST):
        raise RecordError(f"{place} is no run directory: it has no {MANIFEST}")
    raise RecordError(f"{place} holds no checkpoint; a run leaves one with --save")


def load_checkpoint(place: Path) -> Checkpoint:
    """A checkpoint's header, checked against the file's size; RecordError says what is wrong."""
    path = find_checkpoint(place)
    header, data_bytes = _read_header(path)
    metadata = header.pop("__metadata__", None)
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise RecordError(
            f"{path} is no checkpoint of this trainload"
            + ("" if found is None else f": its format is {found!r}")
        )
    assert isinstance(metadata, dict), "it has a format"
    try:
        shapes, told_bytes = _read_shapes(header)
        epoch, step = _read_count(metadata, "epoch"), _read_count(metadata, "step")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{path} is damaged: {_words(error)}") from None
    if told_bytes != data_bytes:
        raise RecordError(
            f"{path} is cut short: {data_bytes:,} of {told_bytes:,} bytes of values are there"
            if told_bytes > data_bytes
            else f"{path} is damaged: {data_bytes:,} bytes of values, its header says "
            f"{told_bytes:,}"
        )
    return Checkpoint(
        path=path,
        run_id=metadata.get("run_id"),
        framework=metadata.get("framework"),
        graph=metadata.get("graph"),
        graph_sha256=metadata.get("graph_sha256"),
        epoch=epoch,
        step=step,
        shapes=shapes,
    )


def _read_shapes(header: Mapping[str, Any]) -> tuple[dict[str, tuple[int, ...]], int]:
    """Every tensor's shape, and how many bytes they take in all.

    ValueError where one is no float32 of its shape, or where they overlap or leave holes: each
    value belongs to one tensor.
    """
    shapes, spans = {}, []
    for name, entry in header.items():
        sizes, (begin, end) = entry["shape"], entry["data_offsets"]
        if not all(type(n) is int and 0 <= n < 1 << 48 for n in (*sizes, begin, end)):
            raise ValueError(f"{name[:80]} has sizes or places that are no counts")
        shapes[name] = tuple(sizes)
        if entry["dtype"] != "F32" or end - begin != 4 * math.prod(sizes):
            raise ValueError(f"{name[:80]} is no float32 of its shape")
        spans.append((begin, end, name))
    last = 0
    for begin, end, name in sorted(spans):
        if begin != last:
            raise ValueError(f"{name[:80]} does not begin where the values before it end")
        last = end
    return shapes, last


def _read_count(metadata: Mapping[str, Any], name: str) -> int:
    text = metadata[name]
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 16):
        raise ValueError(f"its {name} is {str(text)[:40]!r}, no count")
    return int(text)


def _words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def check_fits(checkpoint: Checkpoint, graph: LayerGraph) -> None:
    """RecordError where the checkpoint is of another graph, or lacks one of its weights."""
    path = checkpoint.path
    for name, shape in _expected_shapes(graph).items():
        found = checkpoint.shapes.get(name)
        if found != shape:
            has = "is not in it" if found is None else f"has shape {list(found)} in it"
            raise RecordError(
                f"{path}, a checkpoint of {checkpoint.graph}, does not fit this {graph.name}: "
                f"{name} of shape {list(shape)} {has}"
            )
    if checkpoint.graph_sha256 != graph.sha256:
        raise RecordError(
            f"{path} is a checkpoint of another {checkpoint.graph}: its weights fit {graph.name}, "
            "but the layers differ in an attribute; give the options that it was trained with"
        )


def checkpoint_metadata(graph: LayerGraph, run_id: str, seeds: Mapping[str, int]) -> dict[str, str]:
    """What the driver tells the worker to write into a checkpoint; texts, as the form has it."""
    return {
        "format": FORMAT,
        "graph": graph.name,
        "graph_sha256": graph.sha256,
        "run_id": run_id,
        **{f"seed_{name}": str(seed) for name, seed in seeds.items()},
    }


def _expected_shapes(graph: LayerGraph) -> dict[str, tuple[int, ...]]:
    expected = {}
    for layer in graph.layers:
        for name, shape in layer.parameter_shapes.items():
            expected[f"{layer.name}.{name}"] = tuple(shape)
        if layer.kind == "batch_norm":
            for name in _RUNNING:
                expected[f"{layer.name}.{name}"] = tuple(layer.parameter_shapes["weight"])
    return expected


def _read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and how many bytes follow it."""
    try:
        # A file that the user names may be a link; one that was found in a folder is none.
        with open_inside(path.resolve()) as file:
            size = os.fstat(file.fileno()).st_size
            start = file.read(8)
            (length,) = struct.unpack("<Q", start) if len(start) == 8 else (size,)
            if length > min(_HEADER_LIMIT, size - 8):
                raise RecordError(f"{path} is cut short, or no safetensors file")
            header = json.loads(file.read(length))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise RecordError(f"{path} is no safetensors file: its header is no JSON") from None
    if not isinstance(header, dict):
        raise RecordError(f"{path} is no safetensors file: its header is no JSON object")
    return header, size - 8 - length


def _epoch_of(name: str) -> int:
    digits = "".join(character for character in name if character in "0123456789")
    return int(digits) if 0 < len(digits) < 16 else 0
