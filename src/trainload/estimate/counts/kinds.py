"""What each kind of layer keeps for its backward pass, casts under autocast, and multiplies.

The rules follow torch's autograd (tools/autograd/derivatives.yaml) and its CUDA autocast lists.
Knows single layers; what layers share is found in `counts`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from trainload.workload.graph.kind import Shape, Shapes
from trainload.workload.graph.layers import Layer

FLOAT32_BYTES = 4
HALF_BYTES = 2
INT64_BYTES = 8
MASK_BYTES = 1

Cast = Literal["half", "float32", "none"]
"""What autocast does: computes in half precision, in float32, or takes the inputs' type."""

OwnBytes = Callable[[Layer, Shapes, int, int], int]
"""Bytes kept beside inputs and output: of the layer, its input shapes, batch, bytes a value."""


def _no_bytes(_layer: Layer, _shapes: Shapes, _batch: int, _value_bytes: int) -> int:
    return 0


def _mask(layer: Layer, _shapes: Shapes, batch: int, _value_bytes: int) -> int:
    # One bool a value, as CUDA keeps; torch on a CPU keeps the scaled mask as numbers.
    return batch * math.prod(layer.output_shape) * MASK_BYTES


def _pool_indices(layer: Layer, _shapes: Shapes, batch: int, _value_bytes: int) -> int:
    return batch * math.prod(layer.output_shape) * INT64_BYTES


def _channel_statistics(_layer: Layer, shapes: Shapes, _batch: int, _value_bytes: int) -> int:
    return 2 * shapes[0][0] * FLOAT32_BYTES  # mean and inverse deviation of the batch


def _row_statistics(_layer: Layer, shapes: Shapes, batch: int, _value_bytes: int) -> int:
    return 2 * batch * math.prod(shapes[0][:-1]) * FLOAT32_BYTES


def _lstm_states(layer: Layer, shapes: Shapes, batch: int, value_bytes: int) -> int:
    """Four gates and the cell of each step and layer, and the output of each layer but the last."""
    steps = batch * shapes[0][0]
    hidden, layers = layer.attributes["hidden"], layer.attributes["layers"]
    values = steps * hidden * (5 * layers + (layers - 1))
    masks = steps * hidden * (layers - 1) * MASK_BYTES if layer.attributes["dropout"] else 0
    return int(values * value_bytes + masks)


def _attention_states(layer: Layer, shapes: Shapes, batch: int, value_bytes: int) -> int:
    """Queries, keys, values, the joined heads, and a float32 log-sum of each softmax row.

    Flash and memory-efficient attention keep no scores (Dao et al. 2022); the plain way does.
    """
    steps, width = shapes[0]
    rows = batch * steps * layer.attributes["heads"]
    return int(4 * batch * steps * width * value_bytes + rows * FLOAT32_BYTES)


@dataclass(frozen=True, kw_only=True)
class KindRule:
    """How one kind of layer behaves in memory."""

    keeps_input: bool = False
    keeps_output: bool = False
    own_bytes: OwnBytes = _no_bytes
    cast: Cast = "none"
    view: bool = False
    """The output is the input's own memory: nothing is read, written or allocated."""
    passes_gradient: bool = False
    """The gradient of its inputs is that of its output, or a part of it: nothing is computed."""


_VIEW = KindRule(view=True, passes_gradient=True)
_BY_INPUT = KindRule(keeps_input=True)
_BY_OUTPUT = KindRule(keeps_output=True)
_PRODUCT = KindRule(keeps_input=True, cast="half")

RULES: Mapping[str, KindRule] = {
    "input": KindRule(),
    "linear": _PRODUCT,
    "linear_over_time": _PRODUCT,
    "conv2d": _PRODUCT,
    "lstm": KindRule(keeps_input=True, keeps_output=True, own_bytes=_lstm_states, cast="half"),
    "self_attention": KindRule(keeps_input=True, own_bytes=_attention_states, cast="half"),
    "batch_norm": KindRule(keeps_input=True, own_bytes=_channel_statistics),
    "layer_norm": KindRule(keeps_input=True, own_bytes=_row_statistics, cast="float32"),
    "max_pool2d": KindRule(keeps_input=True, own_bytes=_pool_indices),
    "avg_pool2d": _BY_INPUT,
    "adaptive_avg_pool2d": _BY_INPUT,
    "relu": _BY_OUTPUT,
    "tanh": _BY_OUTPUT,
    "sigmoid": _BY_OUTPUT,
    "softmax": KindRule(keeps_output=True, cast="float32"),
    "leaky_relu": _BY_INPUT,
    "silu": _BY_INPUT,
    "gelu": _BY_INPUT,
    "dropout": KindRule(own_bytes=_mask),
    "embedding": KindRule(keeps_input=True, cast="float32"),
    "position_embedding": KindRule(passes_gradient=True, cast="float32"),
    "add": KindRule(passes_gradient=True),
    "concat": KindRule(passes_gradient=True),
    "flatten": _VIEW,
    "mean_over_time": KindRule(),
    # A view forward; backward, its gradient is written into zeros of the input's size.
    "last_step": KindRule(view=True),
}


def rule_of(layer: Layer) -> KindRule:
    """The rule of that layer; a few kinds behave otherwise for some attributes."""
    if layer.kind == "dropout" and layer.attributes["rate"] == 0:
        return _VIEW
    if layer.kind == "adaptive_avg_pool2d" and layer.attributes["size"] == [1, 1]:
        return KindRule()  # torch takes the mean, whose gradient needs the shape alone
    return RULES[layer.kind]


def backward_flop(layer: Layer, shapes: Shapes, input_needs_gradient: bool) -> int:
    """FLOPs of the backward pass for one example: the gradient of the weights costs a forward
    pass, that of the input another one where it is needed.

    As forward, products alone are counted (`Kind.flop`).
    """
    if layer.kind == "self_attention":
        return _attention_backward(layer, shapes[0], input_needs_gradient)
    if layer.kind == "lstm":
        return _lstm_backward(layer, shapes[0], input_needs_gradient)
    return layer.flop_forward * (2 if input_needs_gradient else 1)


def _attention_backward(layer: Layer, shape: Shape, input_needs_gradient: bool) -> int:
    """Flash attention computes its scores once more going back; that is left out, as it is from
    the FLOPs a model needs (Chowdhery et al. 2022, appendix B)."""
    steps, width = shape
    projections = 3 * 2 * steps * width * width
    return 2 * layer.flop_forward - (0 if input_needs_gradient else projections)


def _lstm_backward(layer: Layer, shape: Shape, input_needs_gradient: bool) -> int:
    steps, width = shape
    first_input = 2 * steps * 4 * int(layer.attributes["hidden"]) * width
    return 2 * layer.flop_forward - (0 if input_needs_gradient else first_input)


def buffer_bytes(layer: Layer) -> int:
    """Bytes of values that are kept with the weights but not trained."""
    if layer.kind == "batch_norm":
        # Running mean and variance, and how many batches they have seen.
        return 2 * layer.output_shape[0] * FLOAT32_BYTES + INT64_BYTES
    if layer.kind == "lstm":
        # torch's second bias is there, frozen at zero.
        return 4 * int(layer.attributes["hidden"]) * int(layer.attributes["layers"]) * FLOAT32_BYTES
    return 0
