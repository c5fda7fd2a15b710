"""Temporary memory inside torch's own CUDA kernels: norms, softmax, embedding, indexing, sums.

Each function follows the kernel named in its docstring (aten/src/ATen/native/cuda). Sizes only.
"""

from collections.abc import Sequence

from trainload.estimate.workspaces.reduction import Staging, staging
from trainload.estimate.workspaces.script import (
    Operation,
    Script,
    Step,
    is_channels_last,
    numel,
    size_bytes,
)

MULTIPROCESSORS = 132
_SORT_PER_ROW, _SORT_FIXED_BYTES = 16.25, 16_895
"""cub's radix sort of 64-bit keys and values; fitted to 4,096 to 65,536 rows, within 1 KiB."""
_SORT_SMALL_ROWS, _SORT_SMALL_BYTES = 3_072, 3_583
_SCAN_BYTES = 1_279
_EMBEDDING_DIRECT_ROWS, _EMBEDDING_ROWS_PER_PART = 3_072, 10
_EMBEDDING_SMALL_TABLE = 128
"""Partial sums of 2- and 32-row tables were one number per part, not one row; where between 32 and
4,096 rows that changes is not known."""


def _take_staging(script: Script, found: Staging) -> None:
    if found.partial_bytes:
        script.brief(found.partial_bytes, found.counter_bytes)


def _dims(op: Operation) -> Sequence[int] | None:
    first = op.attributes[0] if op.attributes else None
    if isinstance(first, (list, tuple)) and first:
        return [int(dim) for dim in first]
    return [first] if isinstance(first, int) and not isinstance(first, bool) else None


def reduction(op: Operation) -> tuple[Step, ...]:
    """Reduce.cuh: partial sums and counters after the result."""
    given = op.inputs[0]
    script = Script()
    script.results(0)
    _take_staging(script, staging(given.shape, given.strides, _dims(op)))
    return script.finish()


def dropout(op: Operation) -> tuple[Step, ...]:
    """Dropout.cu: the mask before the result."""
    script = Script()
    script.results(*reversed(range(len(op.outputs))))
    return script.finish()


def layer_norm(op: Operation) -> tuple[Step, ...]:
    """layer_norm_kernel.cu: works on contiguous rows."""
    script = Script()
    if op.inputs[0].strides is not None:
        script.take(size_bytes(op.inputs[0]))
    script.results(*range(len(op.outputs)))
    return script.finish()


def layer_norm_backward(op: Operation) -> tuple[Step, ...]:
    """layer_norm_kernel.cu: with very many short rows, the weight gradient is made in parts."""
    gradient, given = op.inputs[:2]
    width = op.outputs[1].shape[0] if len(op.outputs) > 1 else given.shape[-1]
    rows = numel(given) // max(1, numel(op.outputs[1]) if len(op.outputs) > 1 else width)
    script = Script()
    if given.strides is not None:
        script.take(size_bytes(given))
    script.results(0)
    if rows > 64 * 1024 and width // 32 < MULTIPROCESSORS // 2:
        parts = -(-rows // 32)
        held = [script.take(width * 4), script.take(width * 4)]
        script.take(parts * width * 4)
        script.take(parts * width * 4)
        for number in (1, 2)[: len(op.outputs) - 1]:
            script.results(number)
            _take_staging(script, staging((parts, width), None, (0,)))
            script.give(held[number - 1])
    else:
        script.results(*range(1, len(op.outputs)))
    if gradient.strides is not None:
        script.take(size_bytes(gradient))
    return script.finish()


def group_norm(op: Operation) -> tuple[Step, ...]:
    """group_norm_kernel.cu: scale and shift per image and channel."""
    batch, channels = op.inputs[0].shape[:2]
    script = Script()
    if op.inputs[0].strides is not None and not is_channels_last(op.inputs[0]):
        script.take(size_bytes(op.inputs[0]))
    script.results(*range(len(op.outputs)))
    script.brief(batch * channels * 4, batch * channels * 4)
    return script.finish()


def group_norm_backward(op: Operation) -> tuple[Step, ...]:
    """group_norm_kernel.cu: sums per image and channel, and three factors."""
    batch, channels = op.inputs[1].shape[:2]
    groups = op.inputs[2].shape[-1]
    each, group = batch * channels * 4, batch * groups * 4
    script = Script()
    script.results(*range(len(op.outputs)))
    script.brief(each, each, group, group, each)
    return script.finish()


def batch_norm_cudnn(op: Operation) -> tuple[Step, ...]:
    """cuDNN, channels innermost: a bit per value and a little more (fitted); else nothing."""
    given = op.inputs[0]
    script = Script()
    script.results(*range(len(op.outputs)))
    if is_channels_last(given):
        bits = numel(given) // 8
        script.brief(bits + bits // 128 + 1_076)
    return script.finish()


def batch_norm_cudnn_backward(op: Operation) -> tuple[Step, ...]:
    """cuDNN, channels innermost: a 48th of the input and 5.4 bytes a channel (fitted)."""
    given = op.inputs[0]
    script = Script()
    script.results(*range(len(op.outputs)))
    if is_channels_last(given):
        script.brief(size_bytes(given) // 48 + int(5.4 * given.shape[1]) + 1_056)
    return script.finish()


def batch_norm(op: Operation) -> tuple[Step, ...]:
    """Normalization.cuh, channels innermost: partial means, squares and counts of each block."""
    given = op.inputs[0]
    channels = given.shape[1]
    script = Script()
    script.results(*range(len(op.outputs)))
    if is_channels_last(given):
        blocks = min(128, -(-numel(given) // channels // 256))
        script.brief(16 * channels * blocks, 4 * -(-channels // 32))
    return script.finish()


def batch_norm_backward(op: Operation) -> tuple[Step, ...]:
    """Normalization.cuh, channels innermost: two sums a channel, and those of each block."""
    given = op.inputs[0]
    channels = given.shape[1]
    script = Script()
    if not is_channels_last(given):
        script.results(*range(len(op.outputs)))
        return script.finish()
    script.take(channels * 4)
    script.take(channels * 4)
    script.results(*range(1, len(op.outputs)))
    blocks = min(128, -(-numel(given) // channels // 256))
    script.brief(8 * channels * blocks, 4 * -(-channels // 32))
    script.results(0)
    return script.finish()


def softmax_backward(op: Operation) -> tuple[Step, ...]:
    """SoftMax.cu: gradient × output as a whole tensor."""
    script = Script()
    script.results(0)
    script.brief(size_bytes(op.outputs[0]))
    return script.finish()


def safe_softmax(op: Operation) -> tuple[Step, ...]:
    """attention.cpp: which scores are minus infinity, which rows wholly so, and a zero."""
    given = op.inputs[0]
    script = Script()
    script.results(0)
    script.brief(numel(given), numel(given) // given.shape[-1], 4)
    return script.finish()


def roll(op: Operation) -> tuple[Step, ...]:
    """TensorTransformations.cu: one dimension after the other."""
    shifts = op.attributes[0] if op.attributes else ()
    script = Script()
    extra = len(shifts) - 1 if isinstance(shifts, (list, tuple)) else 0
    held = -1
    for _ in range(extra):
        taken = script.take(size_bytes(op.inputs[0]))
        script.give(held)
        held = taken
    script.results(0)
    return script.finish()


def contiguous_first(op: Operation) -> tuple[Step, ...]:
    """Kernels that copy a strided gradient once the result is there (max pooling backward)."""
    script = Script()
    script.results(*range(len(op.outputs)))
    if op.inputs[0].strides is not None and not is_channels_last(op.inputs[0]):
        script.brief(size_bytes(op.inputs[0]))
    return script.finish()


def embedding(op: Operation) -> tuple[Step, ...]:
    """Indices are made contiguous."""
    script = Script()
    if len(op.inputs) > 1 and op.inputs[1].strides is not None:
        script.take(size_bytes(op.inputs[1]))
    script.results(0)
    return script.finish()


def _sort_bytes(rows: int) -> int:
    if rows <= _SORT_SMALL_ROWS:
        return _SORT_SMALL_BYTES
    return int(rows * _SORT_PER_ROW) + _SORT_FIXED_BYTES


def embedding_backward(op: Operation) -> tuple[Step, ...]:
    """Embedding.cu and EmbeddingBackwardKernel.cu: sorted indices, then sums of ten rows at a time.

    Up to 3,072 indices are added directly.
    """
    gradient, indices = op.inputs[:2]
    rows = numel(indices)
    script = Script()
    if rows <= _EMBEDDING_DIRECT_ROWS:
        script.results(0)
        return script.finish()
    for tensor in (gradient, indices):
        if tensor.strides is not None:
            script.take(size_bytes(tensor))
    list_bytes = rows * 8
    script.take(list_bytes)
    script.take(list_bytes)
    numbers = script.take(list_bytes)
    script.brief(_sort_bytes(rows))
    script.give(numbers)
    script.results(0)
    table, width = op.outputs[0].shape
    segments = min(rows, table)
    parts = rows // _EMBEDDING_ROWS_PER_PART + segments
    part_bytes = 8 if table <= _EMBEDDING_SMALL_TABLE else width * 4
    script.take(list_bytes)
    script.brief(list_bytes, _SCAN_BYTES)
    script.brief(segments * 8, segments * 8, parts * 8, parts * part_bytes)
    return script.finish()


def index_put(op: Operation) -> tuple[Step, ...]:
    """Indexing.cu with accumulation: sorted indices and the values in one piece."""
    script = Script()
    script.results(*range(len(op.outputs)))
    if not (op.attributes and op.attributes[0] is True) or len(op.inputs) < 3:
        return script.finish()
    rows, values = numel(op.inputs[1]), op.inputs[-1]
    script.take(rows * 8)
    if values.strides is not None:
        script.take(size_bytes(values))
    script.brief(rows * 8, rows * 8, rows * 8, _sort_bytes(rows))
    return script.finish()
