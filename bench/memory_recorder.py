"""Reads what torch's CUDA allocator does, event by event and operation by operation; runs no model.

On a machine without CUDA every figure is 0 and every list empty, so that its callers can be tried.
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

HISTORY_ENTRIES = 2_000_000
_CODES = {"alloc": "a", "segment_alloc": "s", "segment_free": "r", "oom": "o"}
_LONG_LIST = 6


def has_cuda() -> bool:
    """Whether there is anything to read."""
    return bool(torch.cuda.is_available())


class _NvmlMemory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total_bytes", "free_bytes", "used_bytes")]


class DeviceMemory:
    """Bytes in use on the whole device, by NVML: needs no CUDA context of its own."""

    def __init__(self) -> None:
        self._library: Any = None
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            handle = ctypes.c_void_p()
            if library.nvmlInit_v2() == 0:
                index = library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
                self._library, self._handle = (library, handle) if index == 0 else (None, None)
        except OSError:
            pass

    def used_bytes(self) -> int | None:
        """All processes together; None without NVML."""
        if self._library is None:
            return None
        memory = _NvmlMemory()
        failed = self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory))
        return None if failed else int(memory.used_bytes)


def read_stats() -> dict[str, int]:
    """The allocator's own figures, in bytes and counts."""
    if not has_cuda() or not torch.cuda.is_initialized():
        names = "allocated reserved active allocated_peak reserved_peak active_peak allocs frees"
        return dict.fromkeys([*names.split(), "retries", "ooms"], 0)
    stats = torch.cuda.memory_stats_as_nested_dict()
    allocated, reserved, active, count = (
        stats[key]["all"]
        for key in ("allocated_bytes", "reserved_bytes", "active_bytes", "allocation")
    )
    return {
        "allocated": allocated["current"],
        "reserved": reserved["current"],
        "active": active["current"],
        "allocated_peak": allocated["peak"],
        "reserved_peak": reserved["peak"],
        "active_peak": active["peak"],
        "allocs": count["allocated"],
        "frees": count["freed"],
        "retries": stats["num_alloc_retries"],
        "ooms": stats["num_ooms"],
    }


def reset_peaks() -> None:
    """Peaks from here on."""
    if has_cuda():
        torch.cuda.reset_peak_memory_stats()


def read_point(device: DeviceMemory, what: str) -> dict[str, Any]:
    """One row of figures, all work waited for; `position` counts allocations and frees so far."""
    if has_cuda():
        torch.cuda.synchronize()
    stats = read_stats()
    free_bytes = torch.cuda.mem_get_info()[0] if has_cuda() and torch.cuda.is_initialized() else 0
    position = stats["allocs"] + stats["frees"]
    return {
        "at": what,
        "position": position,
        "nvml_used": device.used_bytes(),
        "cuda_free": free_bytes,
        **stats,
    }


def start_history() -> int:
    """Keeps every event from here on, dropping those kept; the position it starts at."""
    if not has_cuda():
        return 0
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.memory._record_memory_history(
        enabled="all", context=None, stacks="python", max_entries=HISTORY_ENTRIES
    )
    stats = read_stats()
    return stats["allocs"] + stats["frees"]


def read_history() -> list[list[Any]]:
    """The kept events in order, as rows [code, bytes, address, stream].

    Codes: a allocation (bytes as asked for), f free, s segment from the driver, r segment given
    back, o out of memory (bytes asked for; address is what was free), q and c where a free was
    only asked for, and completed later; any other action by its name.
    """
    if not has_cuda() or not torch.cuda.is_initialized():
        return []
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    return _compact(entries)


def _compact(entries: list[dict[str, Any]]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    skip = False
    for index, entry in enumerate(entries):
        action = entry["action"]
        if skip:
            skip = False
            continue
        if action == "snapshot":
            continue
        code = _CODES.get(action, action)
        address = entry.get("addr", entry.get("device_free", 0))
        if action == "free_requested":
            after = entries[index + 1] if index + 1 < len(entries) else {}
            skip = after.get("action") == "free_completed" and after.get("addr") == address
            code = "f" if skip else "q"
        elif action == "free_completed":
            code = "c"
        rows.append([code, entry["size"], address, entry.get("stream", 0)])
    return rows


def split_positions(rows: list[list[Any]], start: int) -> dict[int, int]:
    """Index into the rows for each position (count of allocations and frees) from `start` on."""
    index_of = {start: 0}
    position = start
    for index, row in enumerate(rows):
        if row[0] in ("a", "f", "q"):
            position += 1
            index_of[position] = index + 1
    return index_of


def _describe(value: Any, tensors: list[Any], others: list[Any]) -> None:
    """Sorts one argument into tensors and plain values."""
    if isinstance(value, torch.Tensor):
        strides = None if value.is_contiguous() else list(value.stride())
        dtype = str(value.dtype).removeprefix("torch.")
        tensors.append([list(value.shape), dtype, strides, _address(value)])
    elif isinstance(value, (list, tuple)):
        held = [each for each in value if isinstance(each, torch.Tensor)]
        if len(held) > _LONG_LIST:
            sizes = sum(each.numel() * each.element_size() for each in held)
            tensors.append({"tensors": len(held), "bytes": sizes})
        elif held:
            for each in value:
                _describe(each, tensors, others)
        else:
            others.append([_plain(each) for each in value])
    else:
        others.append(_plain(value))


def _address(value: Any) -> int:
    try:
        return int(value.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return 0


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, bool, str, type(None))) else str(value)


class OpRecorder(TorchDispatchMode):
    """Keeps a row for each operation that is dispatched while it is entered.

    Row: [name, phase, inputs, outputs, attributes, position before, position after, allocated
    before, allocated after, peak allocated during it, reserved after]; a tensor is [shape, dtype,
    strides or null, address of its storage].
    """

    def __init__(self) -> None:
        super().__init__()
        self.phase = "other"
        self.rows: list[list[Any]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # torch fixes the name and the arguments
        del types
        inputs: list[Any] = []
        attributes: list[Any] = []
        for value in (*args, *(kwargs or {}).values()):
            _describe(value, inputs, attributes)
        reset_peaks()
        before = read_stats()
        result = func(*args, **(kwargs or {}))
        after = read_stats()
        outputs: list[Any] = []
        _describe(result, outputs, [])
        self.rows.append(
            [
                str(func),
                self.phase,
                inputs,
                outputs,
                attributes,
                before["allocs"] + before["frees"],
                after["allocs"] + after["frees"],
                before["allocated"],
                after["allocated"],
                after["allocated_peak"],
                after["reserved"],
            ]
        )
        return result


@contextlib.contextmanager
def phase(recorder: OpRecorder | None, name: str) -> Iterator[None]:
    """Operations inside belong to that phase."""
    if recorder is not None:
        recorder.phase = name
    yield
    if recorder is not None:
        recorder.phase = "other"


def save_lines(path: Path, first: dict[str, Any], rows: Iterable[Any]) -> None:
    """Gzip'd JSON lines: what it is, then one row a line."""
    with gzip.open(path, "wt", compresslevel=6) as stream:
        stream.write(json.dumps(first) + "\n")
        for row in rows:
            stream.write(json.dumps(row, separators=(",", ":")) + "\n")
