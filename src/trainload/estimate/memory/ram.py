"""How much a process's resident memory grows by training on the CPU; computed, runs nothing.

Takes the events of an op trace made for the CPU. Tensors go through a simulation of glibc's malloc
together with what oneDNN needs inside operations; what torch's libraries take by being used differs
between builds, and is measured in the interpreter by whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from trainload.estimate.memory.fit import Span
from trainload.estimate.memory.heap import GlibcHeap
from trainload.estimate.memory.op_trace import Allocation, Event, Free, Mark, Operation, TraceTensor

LIBRARIES_BYTES = 96 << 20
MOST_LIBRARIES_BYTES = 180 << 20
"""Where nobody has measured it: what a build of torch 2.13 for the CPU takes, and one for CUDA.

Growth by the first steps of a tiny network on Linux: Python modules that torch loads with its first
optimizer, and pages of its libraries used for the first time."""
BLOCK_CHANNELS = 16
"""Channels of a block in oneDNN's layouts where the processor has AVX-512; 8 with AVX2."""
PLAIN_CHANNELS = 3
"""Up to which oneDNN convolves an input as it lies."""
SPREAD = 0.10
"""Of log(measured / estimated), rounded up from the cases that were measured after the rules were
chosen (`fresh` in docs/measurements/raw/memory_ram.jsonl.gz)."""


@dataclass(frozen=True, kw_only=True)
class RamEstimate:
    """The resident memory of a CPU training, beyond what the process had before its model."""

    growth_bytes: Span
    """Peak less start."""
    held_bytes: int
    """Most that tensors and oneDNN's copies hold at once."""
    heap_bytes: int
    """Most that malloc keeps resident for them."""
    libraries_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Copies:
    """What an operation allocates beside its results, in bytes."""

    before: tuple[int, ...] = ()
    """Gone before the results are made."""
    across: tuple[int, ...] = ()
    """Made before the results and gone after them."""
    after: tuple[int, ...] = ()
    """Made after the results."""


_NONE = _Copies()


def estimate_ram(events: Iterable[Event], *, libraries_bytes: int | None = None) -> RamEstimate:
    """The growth by training the traced steps.

    `libraries_bytes` is what torch's libraries take in the interpreter that will train. Where that
    is not known (None), the range holds builds for the CPU and for CUDA.
    """
    heap = GlibcHeap()
    _replay(events, heap)
    least = LIBRARIES_BYTES if libraries_bytes is None else libraries_bytes
    most = MOST_LIBRARIES_BYTES if libraries_bytes is None else libraries_bytes
    factor = math.exp(1.96 * SPREAD)
    return RamEstimate(
        growth_bytes=Span(
            value_bytes=heap.peak_bytes + least,
            low_bytes=int((heap.peak_bytes + least) / factor),
            high_bytes=math.ceil((heap.peak_bytes + most) * factor),
        ),
        held_bytes=heap.peak_held_bytes,
        heap_bytes=heap.peak_bytes,
        libraries_bytes=least,
    )


def _replay(events: Iterable[Event], heap: GlibcHeap) -> None:
    pending, written, forward = _NONE, 0, False
    for event in events:
        if isinstance(event, Allocation):
            size = min(event.size_bytes, written or event.size_bytes)
            kept = forward and event.category == "activation"
            heap.allocate(event.storage, size, for_backward=kept)
            continue
        _end_operation(heap, pending)
        pending, written = _NONE, 0
        if isinstance(event, Operation):
            pending, written = _copies_of(event), _written_workspace(event)
            _begin_operation(heap, pending)
        elif isinstance(event, Free):
            heap.free(event.storage)
        elif isinstance(event, Mark):
            forward = event.text == "step begin"
            if event.text == "step end":
                heap.settle()
    _end_operation(heap, pending)


def _begin_operation(heap: GlibcHeap, copies: _Copies) -> None:
    passing = _allocate(heap, "before", copies.before)
    _allocate(heap, "across", copies.across)
    _free(heap, passing)


def _end_operation(heap: GlibcHeap, copies: _Copies) -> None:
    _free(heap, [("across", number) for number in range(len(copies.across))])
    _free(heap, _allocate(heap, "after", copies.after))


def _allocate(heap: GlibcHeap, name: str, sizes: Sequence[int]) -> list[Hashable]:
    keys: list[Hashable] = [(name, number) for number in range(len(sizes))]
    for key, size in zip(keys, sizes, strict=True):
        heap.allocate(key, size)
    return keys


def _free(heap: GlibcHeap, keys: Iterable[Hashable]) -> None:
    for key in keys:
        heap.free(key)


def _copies_of(operation: Operation) -> _Copies:
    """oneDNN's copies in its blocked layout: input, weights and result of a convolution."""
    if operation.name.startswith("aten.convolution_backward"):
        return _backward_copies(operation)
    if operation.name.startswith("aten.convolution"):
        large = [tensor for tensor in operation.inputs if len(tensor.shape) > 2]
        if not large or not operation.outputs:
            return _NONE
        *source, weights = large
        return _Copies(
            before=(*map(_blocked, filter(_is_deep, source)), _bytes(weights)),
            across=(_blocked(operation.outputs[0]),),
        )
    return _NONE


def _backward_copies(operation: Operation) -> _Copies:
    large = [tensor for tensor in operation.inputs if len(tensor.shape) > 2]
    if len(large) < 3:
        return _NONE
    upper, source, weights = large[:3]
    inside = tuple(map(_blocked, filter(_is_deep, (source,))))
    wants_source = any(out.shape == source.shape for out in operation.outputs)
    return _Copies(
        before=(_blocked(upper), _bytes(weights)) if wants_source else (),
        across=inside if wants_source else (),
        after=(*inside, _blocked(upper), _bytes(weights)),
    )


def _written_workspace(operation: Operation) -> int:
    """Bytes that a recurrent layer writes of its workspace, which is larger; 0 for no such layer.

    Gates of each step, and for input, output and cell the states of each step and the one before.
    """
    if not operation.name.startswith("aten.mkldnn_rnn_layer.") or not operation.outputs:
        return 0
    steps, rows, width = operation.outputs[0].shape
    return 4 * rows * width * (4 * steps + 6 * (steps + 1))


def _is_deep(tensor: TraceTensor) -> bool:
    return tensor.shape[1] > PLAIN_CHANNELS


def _blocked(tensor: TraceTensor) -> int:
    channels = -(-tensor.shape[1] // BLOCK_CHANNELS) * BLOCK_CHANNELS
    return _bytes(tensor) // max(tensor.shape[1], 1) * channels


def _bytes(tensor: TraceTensor) -> int:
    size = {"float64": 8, "int64": 8, "bfloat16": 2, "float16": 2, "uint8": 1, "bool": 1}
    return math.prod(tensor.shape) * size.get(tensor.dtype, 4)
