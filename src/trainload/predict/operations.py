"""Works of a training step from its op trace: each operation's class, type, sizes, FLOPs, bytes.

Reads events alone; FLOPs and bytes are those that `estimate` counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from trainload.estimate.counts.operations import (
    computing_type,
    operation_flop,
    operation_moved_bytes,
    plain_name,
)
from trainload.estimate.memory.op_trace import Event, Operation
from trainload.estimate.workspaces.script import is_channels_last
from trainload.predict.work import PRODUCTS, Work

Sizes = Mapping[str, int]
_GROUPED = "_grouped_mm"
_PRODUCTS = ("mm", "addmm", "mv", "addmv", "_addmm_activation", "_scaled_mm", _GROUPED)
_BATCHED = ("bmm", "baddbmm", "addbmm")
_REDUCTIONS = ("sum", "mean", "amax", "max", "var", "norm", "argmax", "linalg_vector_norm", "std")
_GATHERS = ("embedding", "index", "index_select", "gather")
_SCATTERS = ("embedding_dense_backward", "index_put", "index_put_", "scatter", "scatter_add")
_RANDOM = ("bernoulli_", "normal_", "uniform_", "random_", "exponential_")
_EMPTY = ("empty", "new_empty")
_COPIES = ("_to_copy", "clone", "copy_", "cat", "stack", "split_with_sizes_copy")


def works_of(events: Iterable[Event], *, tf32: bool = False) -> list[Work]:
    """The works of the trace's last step, in order; `tf32` for float32 products in TF32."""
    operations = [event for event in events if isinstance(event, Operation)]
    last = max((operation.step for operation in operations), default=0)
    found: list[Work] = []
    for operation in operations:
        if operation.step == last:
            found.extend(works_of_operation(operation, tf32=tf32))
    return found


def works_of_operation(operation: Operation, *, tf32: bool = False) -> list[Work]:
    """The works of one operation: none, one, or several as of a convolution backward."""
    name = plain_name(operation)
    if name.startswith(_EMPTY):
        return []  # memory that is asked for: nobody writes it yet
    if name == "convolution_backward":
        return _convolution_backward(operation, tf32)
    kind, sizes = _classify(name, operation)
    if kind in ("copy", "elementwise") and "tensors" not in sizes and _is_turned(operation):
        sizes = {**sizes, "turned": 1}
    bias = _bias(operation) if name == "convolution" and len(operation.inputs) > 2 else []
    return [
        Work(
            operation=kind,
            dtype=_dtype(operation, kind, tf32),
            sizes=sizes,
            flops=float(operation_flop(operation)),
            bytes=_bytes(name, operation),
            layer=operation.layer,
            phase="forward" if operation.phase == "other" else operation.phase,
            channels_last=_channels_last(operation),
            name=name,
        ),
        *bias,
    ]


def _bias(operation: Operation, *, backward: bool = False) -> list[Work]:
    """What a convolution's bias adds: a pass over its result, or the sum of its gradient."""
    image = operation.inputs[0] if backward else operation.outputs[0]
    count = math.prod(image.shape)
    item = 4 if "32" in image.dtype else 2
    rows = {"rows": image.shape[1], "width": count // max(image.shape[1], 1)}
    return [
        Work(
            operation="reduction" if backward else "elementwise",
            dtype=_dtype(operation, "bias", tf32=False),
            sizes=rows if backward else {"elements": count, "operands": 2},
            flops=float(count),
            bytes=float(count * item * (1 if backward else 2)),
            layer=operation.layer,
            phase="backward" if backward else "forward",
            name="convolution_bias",
        )
    ]


def _is_turned(operation: Operation) -> bool:
    """Whether an operand lies in memory otherwise than the result of the same shape."""
    if not operation.outputs:
        return False
    result = operation.outputs[0]
    return any(
        one.shape == result.shape and one.strides != result.strides for one in operation.inputs
    )


def _bytes(name: str, operation: Operation) -> float:
    """Least bytes; a loss picks one entry of each row, and its gradient is zero elsewhere."""
    if name.startswith("nll_loss") and "backward" not in name:
        return 16.0 * math.prod(operation.inputs[1].shape)
    if name.startswith("nll_loss"):
        item = 4 if "32" in operation.outputs[0].dtype else 2
        return float(item * math.prod(operation.outputs[0].shape))
    return float(operation_moved_bytes(operation))


def _classify(name: str, operation: Operation) -> tuple[str, Sizes]:
    if name in _PRODUCTS:
        return "linear", _product(operation)
    if name in _BATCHED:
        return "bmm", _product(operation)
    if name == "convolution":
        return "conv", _convolution(operation, operation.inputs[0], operation.inputs[1], 0)
    if "scaled_dot_product" in name or "flash_attention" in name:
        return _attention(name, operation)
    if "rnn" in name or "lstm" in name or "gru" in name:
        return _recurrent(name, operation)
    for part, rule in _BY_PART.items():
        if part in name:
            kind = rule
            backward = kind in ("norm", "softmax", "pool") and "backward" in name
            images = kind != "norm" or part == "batch_norm"
            return (f"{kind}_backward" if backward else kind), _rows(operation, images=images)
    if name.startswith("_fused_"):
        return "optimizer", {"elements": _elements(operation), "tensors": len(operation.inputs)}
    if "_foreach_" in name:
        # One pass of an update that was not fused: a calibration's optimizer is the whole of it.
        tensors = len(operation.inputs)
        return "elementwise", {"elements": _elements(operation), "operands": 3, "tensors": tensors}
    if name in _REDUCTIONS:
        return "reduction", _rows(operation)
    if name in _GATHERS:
        return "gather", _rows(operation)
    if name in _SCATTERS:
        return "scatter", _rows(operation)
    if name in _COPIES:
        return "copy", {"elements": _elements(operation)}
    operands = len(operation.inputs) + len(operation.outputs)
    sizes = {"elements": _elements(operation), "operands": max(operands, 1)}
    if name in _RANDOM:
        return "elementwise", {**sizes, "random": 1}
    return "elementwise", {**sizes, "in_place": 1} if name.endswith("_") else sizes


_BY_PART: Mapping[str, str] = {
    "batch_norm": "norm",
    "layer_norm": "norm",
    "group_norm": "norm",
    "softmax": "softmax",
    "pool": "pool",
}


def _product(operation: Operation) -> Sizes:
    grouped = _GROUPED in operation.name
    left, right = operation.inputs[:2] if grouped else operation.inputs[-2:]
    columns = right.shape[-1] if len(right.shape) > 1 else 1
    rows = left.shape[-2] if len(left.shape) > 1 else 1
    sizes = {"m": rows, "n": columns, "k": left.shape[-1] if left.shape else 1}
    if len(left.shape) > 2:
        return {"batch": math.prod(left.shape[:-2]), **sizes}
    return sizes


def _convolution(operation: Operation, source: Any, weight: Any, skip: int) -> Sizes:
    """Sizes by the attributes, of which `skip` stand before those of a forward pass."""
    stride, transposed, groups = _convolution_words(operation, skip)
    height, width = (*source.shape[2:], 1, 1)[:2]
    ins, outs = (weight.shape[0], weight.shape[1]) if transposed else weight.shape[1::-1]
    return {
        "batch": source.shape[0],
        "in_channels": ins if transposed else ins * groups,
        "out_channels": outs * groups if transposed else outs,
        "height": height,
        "width": width,
        "kernel": max(round(math.prod(weight.shape[2:]) ** (1 / max(len(weight.shape) - 2, 1))), 1),
        "stride": max((*stride, 1)),
        "groups": groups,
    }


def _convolution_words(operation: Operation, skip: int) -> tuple[list[int], bool, int]:
    words = operation.attributes[: len(operation.attributes) - skip]
    stride = words[-6] if len(words) >= 6 and isinstance(words[-6], list) else [1]
    return stride, bool(words[-3]), int(words[-1])


def _convolution_backward(operation: Operation, tf32: bool) -> list[Work]:
    """The gradient of the input and that of the weights, each asked for or not."""
    gradient, source, weight = operation.inputs[:3]
    mask = operation.attributes[-1]
    sizes = _convolution(operation, source, weight, 1)
    wanted = [
        kind
        for kind, asked in zip(("conv_grad_input", "conv_grad_weight"), mask, strict=False)
        if asked
    ]
    found = _bias(operation, backward=True) if len(mask) > 2 and mask[2] else []
    if not wanted:
        return found
    flops = operation_flop(operation) / len(wanted)
    tensors = {"conv_grad_input": source, "conv_grad_weight": weight}
    item = 4 if "32" in gradient.dtype else 2
    for kind in wanted:
        read = weight if kind == "conv_grad_input" else source
        moved = sum(math.prod(one.shape) for one in (gradient, read, tensors[kind])) * item
        found.append(
            Work(
                operation=kind,
                dtype=_dtype(operation, kind, tf32),
                sizes=sizes,
                flops=float(flops),
                bytes=float(moved),
                layer=operation.layer,
                phase=operation.phase,
                channels_last=_channels_last(operation),
                name="convolution_backward",
            )
        )
    return found


def _attention(name: str, operation: Operation) -> tuple[str, Sizes]:
    backward = "backward" in name
    query, key = operation.inputs[1:3] if backward else operation.inputs[:2]
    lead = query.shape[:-2]
    sizes = {
        "batch": lead[0] if lead else 1,
        "heads": math.prod(lead[1:]),
        "queries": query.shape[-2],
        "keys": key.shape[-2],
        "head_size": query.shape[-1],
    }
    return ("attention_backward" if backward else "attention"), sizes


def _recurrent(name: str, operation: Operation) -> tuple[str, Sizes]:
    """cuDNN's layers; batch and steps as the input has them, whichever stands first."""
    rows = operation.inputs[0].shape
    weights = [one for one in operation.inputs[1:] if len(one.shape) == 2]
    hidden = weights[1].shape[-1] if len(weights) > 1 else 1
    gates = weights[1].shape[0] // max(hidden, 1) if len(weights) > 1 else 4
    kind = "gru" if gates == 3 else "lstm"
    sizes = {
        "batch": rows[0],
        "steps": rows[1] if len(rows) > 2 else 1,
        "input": rows[-1],
        "hidden": hidden,
        "layers": max(len(weights) // 2, 1),
    }
    return (f"{kind}_backward" if "backward" in name else kind), sizes


def _rows(operation: Operation, *, images: bool = True) -> Sizes:
    """Rows and width of the largest operand; channels where it is an image and taken as one."""
    tensors = (*operation.inputs, *operation.outputs)
    if not tensors:
        return {"rows": 1, "width": 1}
    largest = max(tensors, key=lambda one: math.prod(one.shape))
    shape = largest.shape
    if len(shape) == 3 and images and "batch_norm" in plain_name(operation):
        return {"batch": shape[0], "channels": shape[1], "height": shape[2], "width": 1}
    if len(shape) == 4 and images:
        return dict(zip(("batch", "channels", "height", "width"), shape, strict=True))
    width = shape[-1] if shape else 1
    return {"rows": math.prod(shape) // max(width, 1), "width": width}


def _channels_last(operation: Operation) -> bool:
    images = [one for one in operation.inputs if len(one.shape) == 4]
    return bool(images) and is_channels_last(images[0])


def _elements(operation: Operation) -> int:
    tensors = operation.outputs or operation.inputs
    return sum(math.prod(one.shape) for one in tensors)


def _dtype(operation: Operation, kind: str, tf32: bool) -> str:
    found = computing_type(operation)
    if found not in ("float32", "bfloat16", "float16"):
        found = "float32"
    # cuDNN may use TF32 unless told otherwise, products of matrices only where they are told to.
    allowed = tf32 or kind.startswith(("conv", "lstm", "gru"))
    return "tf32" if allowed and kind in PRODUCTS and found == "float32" else found
