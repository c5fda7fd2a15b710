"""The weights a training starts from, drawn once for every framework; knows none of them.

The scheme for each kind of layer, with U(b) uniform in (-b, b):

    linear, linear_over_time, conv2d   weight U(sqrt(6/fan_in)), whose variance is the 2/fan_in of
                                       He et al. 2015 (arXiv:1502.01852), eq. 10; bias 0
    embedding                          N(0, 1)
    position_embedding                 N(0, 0.02)
    batch_norm, layer_norm             weight 1, bias 0
    lstm                               all U(1/sqrt(hidden))
    self_attention                     weights U(sqrt(6/(fan_in + fan_out))), Glorot and Bengio
                                       2010, eq. 16; biases 0

Those of the first line keep a signal's size through any number of rectified layers. Torch's own
weights are six times smaller in variance: with them AlexNet, VGG and SqueezeNet, which have no
batch norm, hardly learn. The other lines are torch's.

Each parameter has a stream of its own, named by the seed and the parameter: adding a layer changes
no other one. Names and layouts are torch's.
"""

from __future__ import annotations

import math
import zlib
from typing import Any, Callable, Dict, Iterator, Mapping, Tuple

import numpy

from trainload_worker.errors import GraphError
from trainload_worker.protocol.graph import GraphSpec, LayerSpec

Shape = Tuple[int, ...]
Shapes = Tuple[Shape, ...]
Draw = Callable[[Any, Shape], Any]
Rules = Dict[str, Tuple[Shape, Draw]]


def draw_parameters(graph: GraphSpec, seed: int) -> Iterator[tuple[str, Any]]:
    """Every trained parameter's full name and its float32 array, in the order of the layers."""
    shapes = {layer.name: layer.output_shape for layer in graph.layers}
    for layer in graph.layers:
        for name, (shape, draw) in _rules(layer, shapes).items():
            full_name = f"{layer.name}.{name}"
            yield full_name, draw(_stream(seed, full_name), shape)


def parameter_shapes(graph: GraphSpec) -> dict[str, dict[str, Shape]]:
    """The parameters of each layer by name; a layer that trains nothing has none."""
    shapes = {layer.name: layer.output_shape for layer in graph.layers}
    return {
        layer.name: {name: shape for name, (shape, _) in _rules(layer, shapes).items()}
        for layer in graph.layers
    }


def _stream(seed: int, name: str) -> Any:
    words = [seed, zlib.crc32(name.encode("utf-8"))]
    return numpy.random.Generator(numpy.random.PCG64(numpy.random.SeedSequence(words)))


def _rules(layer: LayerSpec, shapes: Mapping[str, Shape]) -> Rules:
    if layer.kind not in _KINDS:
        return {}
    try:
        return _KINDS[layer.kind](layer.attributes, tuple(shapes[name] for name in layer.inputs))
    except KeyError as error:
        raise GraphError(f"layer {layer.name} lacks {error}") from error


def _uniform(bound: float) -> Draw:
    def draw(stream: Any, shape: Shape) -> Any:
        values = stream.random(shape, dtype=numpy.float32)
        values *= numpy.float32(2.0 * bound)
        values -= numpy.float32(bound)
        return values

    return draw


def _normal(deviation: float) -> Draw:
    def draw(stream: Any, shape: Shape) -> Any:
        values = stream.standard_normal(shape, dtype=numpy.float32)
        values *= numpy.float32(deviation)
        return values

    return draw


def _ones(_stream: Any, shape: Shape) -> Any:
    return numpy.ones(shape, dtype=numpy.float32)


def _zeros(_stream: Any, shape: Shape) -> Any:
    return numpy.zeros(shape, dtype=numpy.float32)


def _linear(attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    width, units = shapes[0][-1], attributes["units"]
    return _affine((units, width), width, attributes.get("bias", True))


def _conv(attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    taken = shapes[0][0] // attributes["groups"]
    height, width = attributes["kernel"]
    shape = (attributes["channels"], taken, height, width)
    return _affine(shape, taken * height * width, attributes["bias"])


def _affine(shape: Shape, fan_in: int, bias: bool) -> Rules:
    rules: Rules = {"weight": (shape, _uniform(math.sqrt(6.0 / fan_in)))}
    if bias:
        rules["bias"] = (shape[:1], _zeros)
    return rules


def _embedding(attributes: Mapping[str, Any], _shapes: Shapes) -> Rules:
    return {"weight": ((attributes["vocabulary"], attributes["width"]), _normal(1.0))}


def _position(_attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    return {"weight": (shapes[0], _normal(0.02))}


def _batch_norm(_attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    return {"weight": (shapes[0][:1], _ones), "bias": (shapes[0][:1], _zeros)}


def _layer_norm(_attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    return {"weight": (shapes[0][-1:], _ones), "bias": (shapes[0][-1:], _zeros)}


def _lstm(attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    hidden = attributes["hidden"]
    draw = _uniform(1.0 / math.sqrt(hidden))
    rules: Rules = {}
    for layer in range(attributes["layers"]):
        width = hidden if layer else shapes[0][-1]
        rules[f"weight_ih_l{layer}"] = ((4 * hidden, width), draw)
        rules[f"weight_hh_l{layer}"] = ((4 * hidden, hidden), draw)
        rules[f"bias_ih_l{layer}"] = ((4 * hidden,), draw)
    return rules


def _attention(_attributes: Mapping[str, Any], shapes: Shapes) -> Rules:
    width = shapes[0][-1]
    return {
        "in_weight": ((3 * width, width), _uniform(math.sqrt(6.0 / (4 * width)))),
        "in_bias": ((3 * width,), _zeros),
        "out_weight": ((width, width), _uniform(math.sqrt(6.0 / (2 * width)))),
        "out_bias": ((width,), _zeros),
    }


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Shapes], Rules]] = {
    "linear": _linear,
    "linear_over_time": _linear,
    "conv2d": _conv,
    "embedding": _embedding,
    "position_embedding": _position,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "lstm": _lstm,
    "self_attention": _attention,
}
