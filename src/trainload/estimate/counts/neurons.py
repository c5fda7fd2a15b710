"""Neurons of each kind of layer and the operations of one: T(μ,i) of Jamgharyan 2024.

The paper defines no T(μ,i). Read here: a neuron is one value of a layer's output for one example;
with n inputs it multiplies n times and adds n - 1 times, once more for a threshold, and evaluating
an activation function is one operation. Kinds the paper does not know follow their definitions.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainload.workload.graph.kind import Shapes
from trainload.workload.graph.layers import Layer


@dataclass(frozen=True, kw_only=True)
class Operations:
    """Of one layer: how many neurons, the sum of their operations, and the largest of them."""

    neurons: int
    total: int
    largest: int


Rule = Callable[[Layer, Shapes], Operations]

NOTHING = Operations(neurons=0, total=0, largest=0)


def count_operations(layer: Layer, shapes: Shapes) -> Operations:
    """Neurons and operations of a layer whose inputs have these shapes."""
    return _RULES[layer.kind](layer, shapes)


def _alike(layer: Layer, each: int) -> Operations:
    """Every output value takes the same operations."""
    neurons = math.prod(layer.output_shape)
    return Operations(neurons=neurons, total=neurons * each, largest=each)


def _weighted_sum(inputs: int, threshold: bool) -> int:
    return 2 * inputs - (0 if threshold else 1)


def _each(operations: int) -> Rule:
    return lambda layer, _shapes: _alike(layer, operations)


def _moves_only(_layer: Layer, _shapes: Shapes) -> Operations:
    return NOTHING


def _linear(layer: Layer, shapes: Shapes) -> Operations:
    return _alike(layer, _weighted_sum(shapes[0][-1], layer.attributes["bias"]))


def _convolution(layer: Layer, shapes: Shapes) -> Operations:
    # Neurons of one channel share their weights; those at the border multiply the padding's zeros.
    window = math.prod(layer.attributes["kernel"])
    inputs = shapes[0][0] // layer.attributes["groups"] * window
    return _alike(layer, _weighted_sum(inputs, layer.attributes["bias"]))


def _max_pool(layer: Layer, _shapes: Shapes) -> Operations:
    return _alike(layer, math.prod(layer.attributes["kernel"]) - 1)  # comparisons


def _mean_pool(layer: Layer, _shapes: Shapes) -> Operations:
    return _alike(layer, math.prod(layer.attributes["kernel"]))  # a sum and a product


def _adaptive_pool(layer: Layer, shapes: Shapes) -> Operations:
    """Cells can differ in size, so that neurons of one layer differ: see `adaptive_avg_pool2d`."""
    sides = []
    for extent, cells in zip(shapes[0][1:], layer.attributes["size"], strict=True):
        sides.append([-(-(i + 1) * extent // cells) - i * extent // cells for i in range(cells)])
    total = shapes[0][0] * sum(sides[0]) * sum(sides[1])
    return Operations(
        neurons=math.prod(layer.output_shape), total=total, largest=max(sides[0]) * max(sides[1])
    )


def _sum(layer: Layer, shapes: Shapes) -> Operations:
    return _alike(layer, len(shapes) - 1)


def _mean_over_time(layer: Layer, shapes: Shapes) -> Operations:
    return _alike(layer, shapes[0][0])


def _lstm(layer: Layer, shapes: Shapes) -> Operations:
    """A hidden unit at a step: four weighted sums, five activations, the cell's three operations
    and the product that opens it. A step waits for the one before, a layer for the one below."""
    steps, width = shapes[0]
    hidden, layers = layer.attributes["hidden"], layer.attributes["layers"]
    largest = 0
    for number in range(layers):
        inputs = (hidden if number else width) + hidden
        largest += steps * (4 * _weighted_sum(inputs, threshold=True) + 9)
    return Operations(neurons=steps * hidden * layers, total=hidden * largest, largest=largest)


def _attention(layer: Layer, shapes: Shapes) -> Operations:
    """Five parts in turn: projections, scores, softmax, weighted values, output."""
    steps, width = shapes[0]
    heads = layer.attributes["heads"]
    scores = heads * steps * steps
    parts = [
        (3 * steps * width, _weighted_sum(width, threshold=True)),
        (scores, 2 * (width // heads)),  # a scalar product and its scaling
        (scores, _SOFTMAX),
        (steps * width, _weighted_sum(steps, threshold=False)),
        (steps * width, _weighted_sum(width, threshold=True)),
    ]
    return Operations(
        neurons=sum(neurons for neurons, _ in parts),
        total=sum(neurons * each for neurons, each in parts),
        largest=sum(each for _, each in parts),
    )


# For each value: a comparison for the maximum, the exponential, its sum, the quotient.
_SOFTMAX = 4
# For each value: mean (1), variance (3), normalising (2), scale and shift (2).
_NORM = 8

_RULES: Mapping[str, Rule] = {
    "input": _moves_only,
    "flatten": _moves_only,
    "concat": _moves_only,
    "last_step": _moves_only,
    "embedding": _moves_only,  # a look-up; the product with a one-hot vector is not computed
    "linear": _linear,
    "linear_over_time": _linear,
    "conv2d": _convolution,
    "max_pool2d": _max_pool,
    "avg_pool2d": _mean_pool,
    "adaptive_avg_pool2d": _adaptive_pool,
    "batch_norm": _each(_NORM),
    "layer_norm": _each(_NORM),
    "softmax": _each(_SOFTMAX),
    "relu": _each(1),
    "leaky_relu": _each(1),
    "tanh": _each(1),
    "sigmoid": _each(1),
    "silu": _each(1),
    "gelu": _each(1),
    "dropout": _each(1),
    "position_embedding": _each(1),
    "add": _sum,
    "mean_over_time": _mean_over_time,
    "lstm": _lstm,
    "self_attention": _attention,
}
