"""A Gluon block for each kind of layer, hybridizable; knows no graph.

Images are batch × channels × height × width, MXNet's own layout and torch's. A block's parameters
are found by `find`, under the names that the graph gives them, in torch's layout.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Tuple

import numpy
from mxnet.gluon import nn, rnn
from mxnet.gluon.block import HybridBlock

Attributes = Mapping[str, Any]
Shape = Tuple[int, ...]
Shapes = Tuple[Shape, ...]


class Plain(HybridBlock):  # type: ignore[misc]  # mxnet is not typed here
    """A function of MXNet's operations and of the inputs alone."""

    def __init__(self, prefix: str, function: Callable[..., Any]) -> None:
        super().__init__(prefix=prefix)
        self._function = function

    def hybrid_forward(self, F: Any, *values: Any) -> Any:  # noqa: N803 - Gluon's name
        """The function's result."""
        return self._function(F, *values)


class Cut(HybridBlock):  # type: ignore[misc]
    """A pool whose last windows, begun outside the image, are cut off as torch does."""

    def __init__(self, prefix: str, pool: Any, cells: Shape) -> None:
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.pool = pool
        self._cells = cells

    def hybrid_forward(self, F: Any, value: Any) -> Any:  # noqa: N803
        """The pool's first cells."""
        return F.slice(self.pool(value), begin=(None, None, 0, 0), end=(None, None, *self._cells))


class PositionEmbedding(HybridBlock):  # type: ignore[misc]
    """Adds a trained vector to each step."""

    def __init__(self, prefix: str, shape: Shape) -> None:
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shape)

    def hybrid_forward(self, F: Any, value: Any, weight: Any) -> Any:  # noqa: N803
        """The sum."""
        return F.broadcast_add(value, F.expand_dims(weight, axis=0))


class Lstm(HybridBlock):  # type: ignore[misc]
    """LSTM layers with one trained bias; gives the last layer's output at each step.

    MXNet's gates stand in torch's order. Its second bias is the same term again and stays zero.
    """

    def __init__(self, prefix: str, attributes: Attributes, shape: Shape) -> None:
        super().__init__(prefix=prefix)
        with self.name_scope():
            self.lstm = rnn.LSTM(
                attributes["hidden"],
                attributes["layers"],
                layout="NTC",
                dropout=attributes["dropout"],
                input_size=shape[-1],
                prefix="",
            )
        for layer in range(attributes["layers"]):
            second = getattr(self.lstm, f"l{layer}_h2h_bias")
            second.grad_req = "null"

    def find(self, name: str) -> Any:
        """The parameter that torch calls so, such as weight_ih_l0."""
        what, side, layer = name.split("_")
        return getattr(self.lstm, f"{layer}_{'i2h' if side == 'ih' else 'h2h'}_{what}")

    def hybrid_forward(self, F: Any, value: Any) -> Any:  # noqa: N803, ARG002
        """Starts from a state of zeros."""
        return self.lstm(value)


class SelfAttention(HybridBlock):  # type: ignore[misc]
    """Multi-head scaled dot-product attention of a sequence to itself."""

    def __init__(self, prefix: str, attributes: Attributes, shape: Shape) -> None:
        super().__init__(prefix=prefix)
        self._time, self._width = shape
        self._heads, self._causal = attributes["heads"], attributes["causal"]
        self._rate = attributes["dropout"]
        width = self._width
        with self.name_scope():
            self.in_weight = self.params.get("in_weight", shape=(3 * width, width))
            self.in_bias = self.params.get("in_bias", shape=(3 * width,))
            self.out_weight = self.params.get("out_weight", shape=(width, width))
            self.out_bias = self.params.get("out_bias", shape=(width,))
            if self._causal:
                hidden: Any = numpy.triu(numpy.full((self._time, self._time), -1e30, "float32"), 1)
                self.hidden = self.params.get_constant("hidden", hidden[None])

    def hybrid_forward(self, F: Any, value: Any, **own: Any) -> Any:  # noqa: N803
        """Attends in all heads at once and projects the joined heads."""
        time, width, heads = self._time, self._width, self._heads
        deep = width // heads
        projected = F.FullyConnected(
            value, own["in_weight"], own["in_bias"], num_hidden=3 * width, flatten=False
        )
        split = F.transpose(
            F.reshape(projected, shape=(-1, time, 3, heads, deep)), axes=(2, 0, 3, 1, 4)
        )
        query, key, values = (
            F.reshape(F.slice_axis(split, axis=0, begin=part, end=part + 1), shape=(-1, time, deep))
            for part in range(3)
        )
        scores = F.batch_dot(query, key, transpose_b=True) / math.sqrt(deep)
        if self._causal:
            scores = F.broadcast_add(scores, own["hidden"])
        weights = F.softmax(scores, axis=-1)
        if self._rate:
            weights = F.Dropout(weights, p=self._rate)
        joined = F.reshape(F.batch_dot(weights, values), shape=(-1, heads, time, deep))
        joined = F.reshape(F.transpose(joined, axes=(0, 2, 1, 3)), shape=(-1, time, width))
        return F.FullyConnected(
            joined, own["out_weight"], own["out_bias"], num_hidden=width, flatten=False
        )


_OWN_NAMES: Mapping[str, Mapping[str, str]] = {
    "BatchNorm": {"weight": "gamma", "bias": "beta"},
    "LayerNorm": {"weight": "gamma", "bias": "beta"},
}


def find_parameter(block: Any, name: str) -> Any:
    """The block's parameter that the graph calls so."""
    if hasattr(block, "find"):
        return block.find(name)
    return getattr(block, _OWN_NAMES.get(type(block).__name__, {}).get(name, name))


def _linear(prefix: str, attributes: Attributes, shapes: Shapes, _output: Shape) -> Any:
    return nn.Dense(
        attributes["units"],
        use_bias=attributes.get("bias", True),
        flatten=False,
        in_units=shapes[0][-1],
        prefix=prefix,
    )


def _conv(prefix: str, attributes: Attributes, shapes: Shapes, _output: Shape) -> Any:
    return nn.Conv2D(
        attributes["channels"],
        kernel_size=tuple(attributes["kernel"]),
        strides=tuple(attributes["stride"]),
        padding=tuple(attributes["padding"]),
        dilation=tuple(attributes["dilation"]),
        groups=attributes["groups"],
        use_bias=attributes["bias"],
        in_channels=shapes[0][0],
        prefix=prefix,
    )


def _pool(kind: Any, **options: Any) -> Callable[[str, Attributes, Shapes, Shape], Any]:
    def build(prefix: str, attributes: Attributes, shapes: Shapes, output: Shape) -> Any:
        chosen = {own: attributes[name] for own, name in options.items()}
        pool = kind(
            pool_size=tuple(attributes["kernel"]),
            strides=tuple(attributes["stride"]),
            padding=tuple(attributes["padding"]),
            ceil_mode=attributes["ceil"],
            prefix=prefix,
            **chosen,
        )
        fits = not attributes["ceil"] or output[1:] == _rounded_up(attributes, shapes[0])
        return pool if fits else Cut(prefix, pool, output[1:])

    return build


def _rounded_up(attributes: Attributes, shape: Shape) -> Shape:
    """How many windows MXNet makes when it rounds up."""
    return tuple(
        -((size + 2 * padding - kernel) // -stride) + 1
        for size, padding, kernel, stride in zip(
            shape[1:], attributes["padding"], attributes["kernel"], attributes["stride"]
        )
    )


def _batch_norm(prefix: str, attributes: Attributes, shapes: Shapes, _output: Shape) -> Any:
    # MXNet means the share of the old value; the graph that of the new one.
    return nn.BatchNorm(
        momentum=1.0 - attributes["momentum"],
        epsilon=attributes["eps"],
        in_channels=shapes[0][0],
        prefix=prefix,
    )


def _layer_norm(prefix: str, attributes: Attributes, shapes: Shapes, _output: Shape) -> Any:
    return nn.LayerNorm(epsilon=attributes["eps"], in_channels=shapes[0][-1], prefix=prefix)


def _embedding(prefix: str, attributes: Attributes, _shapes: Shapes, _output: Shape) -> Any:
    return nn.Embedding(attributes["vocabulary"], attributes["width"], prefix=prefix)


def _function(
    make: Callable[[Attributes, Shape], Callable[..., Any]],
) -> Callable[[str, Attributes, Shapes, Shape], Any]:
    """A builder of blocks without parameters, from the attributes and the output's shape."""

    def build(prefix: str, attributes: Attributes, _shapes: Shapes, output: Shape) -> Any:
        return Plain(prefix, make(attributes, output))

    return build


def _add(_ops: Any, first: Any, *others: Any) -> Any:
    for other in others:
        first = first + other
    return first


def _adaptive(_attributes: Attributes, output: Shape) -> Callable[..., Any]:
    size = output[1:]
    return lambda ops, value: ops.contrib.AdaptiveAvgPooling2D(value, output_size=size)


def _activate(ops: Any, value: Any, kind: str) -> Any:
    # As Gluon's own layers do. The functions of these names are not vectorised: tanh takes ten
    # times as long. This relu makes 0 of NaN; a loss that is NaN shows all the same.
    return ops.Activation(value, act_type=kind)


def _activation(kind: str) -> Callable[[str, Attributes, Shapes, Shape], Any]:
    return _function(lambda _a, _o: lambda ops, value: _activate(ops, value, kind))


def _leaky(attributes: Attributes, _output: Shape) -> Callable[..., Any]:
    slope = attributes.get("negative_slope", 0.01)
    return lambda ops, value: ops.LeakyReLU(value, act_type="leaky", slope=slope)


def _last_step(_attributes: Attributes, _output: Shape) -> Callable[..., Any]:
    return lambda ops, value: ops.reshape(
        ops.slice_axis(value, axis=1, begin=-1, end=None), shape=(0, -1)
    )


Builder = Callable[[str, Attributes, Shapes, Shape], Any]

BUILDERS: Mapping[str, Builder] = {
    "linear": _linear,
    "linear_over_time": _linear,
    "conv2d": _conv,
    "max_pool2d": _pool(nn.MaxPool2D),
    "avg_pool2d": _pool(nn.AvgPool2D, count_include_pad="count_padding"),
    "adaptive_avg_pool2d": _function(_adaptive),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "add": _function(lambda _a, _o: _add),
    "concat": _function(lambda _a, _o: lambda ops, *values: ops.concat(*values, dim=1)),
    "relu": _activation("relu"),
    "leaky_relu": _function(_leaky),
    "tanh": _activation("tanh"),
    "sigmoid": _activation("sigmoid"),
    "silu": _function(lambda _a, _o: lambda ops, value: value * _activate(ops, value, "sigmoid")),
    "gelu": _function(lambda _a, _o: lambda ops, value: ops.LeakyReLU(value, act_type="gelu")),
    "softmax": _function(lambda _a, _o: lambda ops, value: ops.softmax(value, axis=-1)),
    "dropout": lambda prefix, a, _s, _o: nn.Dropout(a["rate"], prefix=prefix),
    "flatten": _function(lambda _a, _o: lambda ops, value: ops.flatten(value)),
    "embedding": _embedding,
    "position_embedding": lambda prefix, _a, s, _o: PositionEmbedding(prefix, s[0]),
    "lstm": lambda prefix, a, s, _o: Lstm(prefix, a, s[0]),
    "self_attention": lambda prefix, a, s, _o: SelfAttention(prefix, a, s[0]),
    "mean_over_time": _function(lambda _a, _o: lambda ops, value: ops.mean(value, axis=1)),
    "last_step": _function(_last_step),
}
