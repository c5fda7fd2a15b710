"""Accumulators inside the attention kernels that torch calls on CUDA.

Each kernel sums the query's gradient in float32 and keeps one float32 per row beside it. Sizes as
in torch's `attention_backward.cu`, `flash_api.cpp`, and as measured for cuDNN.
"""

from trainload.estimate.workspaces.script import (
    Operation,
    Script,
    Step,
    Tensor,
    numel,
    size_bytes,
)

_CUDNN_FIXED_BYTES = 256
_FLASH_ROWS, _FLASH_WIDTH = 128, 32
_EFFICIENT_BLOCK, _EFFICIENT_WIDE_BLOCK = 64, 128
_EFFICIENT_COUNTER_BYTES = 16


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _is_steps_first(tensor: Tensor) -> bool:
    """Whether [batch, heads, steps, width] lies in memory as [batch, steps, heads, width]."""
    _, heads, steps, width = tensor.shape
    wanted = (steps * heads * width, width, heads * width, 1)
    strides = tensor.strides
    if strides is None:
        strides = (heads * steps * width, steps * width, width, 1)
    sizes = tensor.shape
    return all(size == 1 or a == b for size, a, b in zip(sizes, strides, wanted, strict=True))


def cudnn_forward(op: Operation) -> tuple[Step, ...]:
    """Random state, output, log-sum-exp; a fixed scratch."""
    script = Script()
    script.results(*range(len(op.outputs)))
    script.brief(_CUDNN_FIXED_BYTES)
    return script.finish()


def cudnn_backward(op: Operation) -> tuple[Step, ...]:
    """Query gradient and row sums in float32; keys and values of shared heads once per head."""
    query, key = op.inputs[1], op.inputs[2]
    batch, heads, steps, _ = query.shape
    scratch = numel(query) * 4 + batch * heads * steps * 4 + _CUDNN_FIXED_BYTES
    if key.shape[1] != heads:
        scratch += 2 * size_bytes(key) // key.shape[1] * heads
    script = Script()
    script.results(*range(len(op.outputs)))
    script.brief(scratch)
    return script.finish()


def flash_backward(op: Operation) -> tuple[Step, ...]:
    """Gradient and output with the steps before the heads; row sums and query gradient padded."""
    gradient, query, output = op.inputs[0], op.inputs[1], op.inputs[4]
    batch, heads, steps, width = query.shape
    rows = batch * heads * _up(steps, _FLASH_ROWS)
    script = Script()
    for tensor in (gradient, output):
        if not _is_steps_first(tensor):
            script.take(size_bytes(tensor))
    script.results(*range(len(op.outputs)))
    script.brief(rows * 4, rows * _up(width, _FLASH_WIDTH) * 4)
    return script.finish()


def efficient_backward(op: Operation) -> tuple[Step, ...]:
    """Row sums of gradient × output, then the query gradient in whole blocks of float32."""
    gradient, query = op.inputs[0], op.inputs[1]
    batch, heads, steps, width = query.shape
    full = query.dtype == "float32"
    block = _EFFICIENT_BLOCK if full or width <= _EFFICIENT_BLOCK else _EFFICIENT_WIDE_BLOCK
    blocks = -(-steps // block)
    script = Script()
    if not _is_steps_first(gradient):
        script.take(size_bytes(gradient))
    script.results(*range(len(op.outputs)))
    rows = batch * heads * steps * 4
    if full:
        product, sums = script.take(size_bytes(query)), script.take(rows)
        script.take(rows)
        script.give(sums, product)
    else:
        script.take(rows)
    padded = blocks * block * _up(width, _EFFICIENT_BLOCK) * 4
    script.brief(batch * heads * (padded + blocks * _EFFICIENT_COUNTER_BYTES))
    return script.finish()
