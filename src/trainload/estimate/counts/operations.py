"""FLOPs and bytes of single operations of an op trace, from shapes alone.

The rule for FLOPs is that of layer graphs and of torch's FlopCounterMode: products of matrices,
convolutions, attention and recurrent layers, two for a multiply-add, everything else none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from trainload.estimate.memory.op_trace import Event, Operation, TraceTensor
from trainload.estimate.workspaces.script import ITEM_BYTES

_BACKWARD = "_backward"
_ATTENTION = "scaled_dot_product"
_GATHERING = ("embedding", "index", "index_select", "gather", "select_backward")
"""Read as much of their first operand as they give."""
_LEAST_OPERANDS = {
    **dict.fromkeys(("mm", "bmm", "mv", "convolution", "_scaled_mm", "_grouped_mm"), 2),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), 3),
    "convolution_backward": 3,
}


def plain_name(operation: Operation) -> str:
    """`addmm` of `aten.addmm.default`."""
    return operation.name.removeprefix("aten.").partition(".")[0]


def lacking_operands(events: Iterable[Event]) -> str | None:
    """The first product or convolution whose operands the trace does not all tell; None of none.

    So it is with scripts on a CPU, whose weights were there before the trace.
    """
    for event in events:
        if isinstance(event, Operation):
            name = plain_name(event)
            if len(event.inputs) < _LEAST_OPERANDS.get(name, 0):
                return name
    return None


def operation_flop(operation: Operation) -> int:
    """Multiplications and additions of products; 0 for everything else."""
    name = plain_name(operation)
    if _ATTENTION in name:
        return _attention(operation, backward=_BACKWARD in name)
    rule = _RULES.get(name)
    return 0 if rule is None else rule(operation)


def operation_moved_bytes(operation: Operation) -> int:
    """Bytes read and written, each operand and each result once; what is repeated counts once."""
    name = plain_name(operation)
    read = [_bytes(tensor) for tensor in operation.inputs]
    written = sum(map(_bytes, operation.outputs))
    if name in _GATHERING and read:
        read[0] = min(read[0], written)
    if name.startswith("_foreach_") and name.endswith("_"):
        # In place: results are the first of several lists of equal sizes, and not told again.
        written = sum(read) // _lists(operation.name)
    return sum(read) + written


def computing_type(operation: Operation) -> str:
    """The type that an operation computes in: that of its largest operand of numbers."""
    floats = [tensor for tensor in operation.inputs if "float" in tensor.dtype]
    largest = max(floats, key=_bytes, default=None)
    return "float32" if largest is None else largest.dtype


def _product(operation: Operation) -> int:
    """The last two operands, with or without a batch; before them what is added."""
    left, right = operation.inputs[-2:]
    return 2 * math.prod(left.shape) * (right.shape[-1] if len(right.shape) > 1 else 1)


def _grouped_product(operation: Operation) -> int:
    """Each row, or each column, times the matrix of its own group."""
    left, right = operation.inputs[:2]
    rows = left.shape[-2:] if len(right.shape) == 2 else left.shape
    return 2 * math.prod(rows) * right.shape[-1]


def _convolution(operation: Operation) -> int:
    source, weight = operation.inputs[:2]
    return _windows(source, operation.outputs[0], weight, operation.attributes[-3])


def _convolution_backward(operation: Operation) -> int:
    """A forward pass for each gradient that is asked for: of the input, of the weights."""
    gradient, source, weight = operation.inputs[:3]
    transposed, mask = operation.attributes[-4], operation.attributes[-1]
    return _windows(source, gradient, weight, transposed) * sum(map(bool, mask[:2]))


def _windows(source: TraceTensor, result: TraceTensor, weight: TraceTensor, turned: bool) -> int:
    places = (source if turned else result).shape
    return 2 * places[0] * math.prod(places[2:]) * math.prod(weight.shape)


def _attention(operation: Operation, *, backward: bool) -> int:
    """Scores and their product with the values; going back twice that.

    That flash attention computes its scores once more is left out, as it is for layer graphs.
    """
    query, key, value = operation.inputs[1:4] if backward else operation.inputs[:3]
    rows = math.prod(query.shape[:-1])
    forward = 2 * rows * key.shape[-2] * (query.shape[-1] + value.shape[-1])
    return 2 * forward if backward else forward


def _cudnn_recurrent(operation: Operation) -> int:
    """Every matrix of weights times every step of every example."""
    *_, projected, layers, _, _, _, both_ways, _, _ = operation.attributes
    return _over_time(operation, _matrices(operation, layers, projected, both_ways))


def _cudnn_recurrent_backward(operation: Operation) -> int:
    """Twice the way forward, less the product for the input's gradient where nobody wants it."""
    *_, projected, layers, _, _, _, both_ways, _, _, mask = operation.attributes
    matrices = _matrices(operation, layers, projected, both_ways)
    whole = 2 * _over_time(operation, matrices)
    if mask[0]:
        return whole
    return whole - (2 if both_ways else 1) * _over_time(operation, matrices[:1])


def _onednn_recurrent(operation: Operation) -> int:
    """One layer in one direction: the weights of input and state."""
    return _over_time(operation, _matrices(operation, 1, 0, False))


def _onednn_recurrent_backward(operation: Operation) -> int:
    """Twice the way forward: oneDNN gives the input's gradient whether it is wanted or not."""
    return 2 * _onednn_recurrent(operation)


def _over_time(operation: Operation, matrices: list[TraceTensor]) -> int:
    places = math.prod(operation.inputs[0].shape[:-1])
    return 2 * places * sum(math.prod(weight.shape) for weight in matrices)


def _matrices(
    operation: Operation, layers: int, projected: int, both_ways: bool
) -> list[TraceTensor]:
    """The weights of inputs, states and projections; behind them may stand their whole buffer."""
    count = layers * (2 if both_ways else 1) * (3 if projected else 2)
    return [tensor for tensor in operation.inputs[1:] if len(tensor.shape) == 2][:count]


def _lists(name: str) -> int:
    """How many lists of tensors an operation on lists takes."""
    plain, _, variant = name.removeprefix("aten.").partition(".")
    if plain in ("_foreach_addcdiv_", "_foreach_addcmul_"):
        return 3
    if plain == "_foreach_lerp_":
        return 3 if variant == "List" else 2
    return 2 if variant == "List" or plain == "_foreach_copy_" else 1


def _bytes(tensor: TraceTensor) -> int:
    strides = tensor.strides or (1,) * len(tensor.shape)
    sizes = (size for size, stride in zip(tensor.shape, strides, strict=True) if stride)
    return math.prod(sizes) * ITEM_BYTES.get(tensor.dtype, 4)


_RULES: Mapping[str, Callable[[Operation], int]] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv"), _product),
    **dict.fromkeys(("_scaled_mm", "_addmm_activation"), _product),
    "_grouped_mm": _grouped_product,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_cudnn_rnn": _cudnn_recurrent,
    "_cudnn_rnn_backward": _cudnn_recurrent_backward,
    "mkldnn_rnn_layer": _onednn_recurrent,
    "mkldnn_rnn_layer_backward": _onednn_recurrent_backward,
}
