"""A Flax NNX module for each kind of layer; knows no graph.

Images are batch × height × width × channels, Flax's own layout. A module's parameters are named
as the graph names them; `load` takes them in torch's layout. Each module is called with its
inputs, whether it trains, and a key for chance.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy
from flax import nnx
from jax import lax

from trainload_worker.frameworks.arrays.pooling import (
    adaptive_means,
    adaptive_window,
    find_pads,
    mean_scales,
)

Attributes = Mapping[str, Any]
Shape = Tuple[int, ...]
Shapes = Tuple[Shape, ...]


class Layer(nnx.Module):  # type: ignore[misc]  # flax is not typed here
    """One layer; without parameters unless a sub-class makes some."""

    def load(self, parameters: Mapping[str, Any]) -> None:
        """Takes over the initial parameters, whose arrays are in torch's layout."""
        for name, values in parameters.items():
            setattr(self, name, nnx.Param(jnp.asarray(self.from_torch(name, values))))

    def from_torch(self, name: str, values: Any) -> Any:  # noqa: ARG002 - some look at the name
        """The array in this framework's layout."""
        return values


class Plain(Layer):
    """A function of the inputs alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *values: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        return self._function(*values)


class Linear(Layer):
    """An affine map of the last dimension; the weight is inputs × units."""

    bias: Any = None

    def from_torch(self, name: str, values: Any) -> Any:
        """Turned: torch keeps units × inputs."""
        return values.T if name == "weight" else values

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        product = value @ self.weight[...]
        return product if self.bias is None else product + self.bias[...]


class Convolution(Layer):
    """A two-dimensional convolution; the weight is height × width × inputs × outputs."""

    bias: Any = None

    def __init__(self, attributes: Attributes) -> None:
        self._stride = tuple(attributes["stride"])
        self._pads = tuple((pad, pad) for pad in attributes["padding"])
        self._dilation = tuple(attributes["dilation"])
        self._groups = attributes["groups"]

    def from_torch(self, name: str, values: Any) -> Any:
        """Turned: torch keeps outputs × inputs × height × width."""
        return values.transpose(2, 3, 1, 0) if name == "weight" else values

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        result = lax.conv_general_dilated(
            value,
            self.weight[...],
            window_strides=self._stride,
            padding=self._pads,
            rhs_dilation=self._dilation,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=self._groups,
        )
        return result if self.bias is None else result + self.bias[...]


class BatchNorm(Layer):
    """Normalises each channel; `momentum` is the share of the new value in the running figures.

    The running variance is the unbiased one, as torch keeps it; Flax's own would keep the biased.
    """

    def __init__(self, attributes: Attributes, shape: Shape) -> None:
        self._momentum, self._eps = attributes["momentum"], attributes["eps"]
        self.mean = nnx.BatchStat(jnp.zeros(shape[0], jnp.float32))
        self.variance = nnx.BatchStat(jnp.ones(shape[0], jnp.float32))

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        if train:
            axes = tuple(range(value.ndim - 1))
            count = math.prod(value.shape[:-1])
            mean = value.mean(axes)
            variance = jnp.square(value - mean).mean(axes)
            self._follow(self.mean, mean)
            self._follow(self.variance, variance * (count / max(1, count - 1)))
        else:
            mean, variance = self.mean[...], self.variance[...]
        scale = self.weight[...] * lax.rsqrt(variance + self._eps)
        return value * scale + (self.bias[...] - mean * scale)

    def _follow(self, running: Any, new: Any) -> None:
        share = self._momentum
        running[...] = (1.0 - share) * running[...] + share * lax.stop_gradient(new)


class LayerNorm(Layer):
    """Normalises along `axis`, the last dimension of the graph's layout."""

    def __init__(self, attributes: Attributes, shape: Shape) -> None:
        self._eps = attributes["eps"]
        self._axis = last_axis(shape)
        self._spread = [1] * (len(shape) + 1)
        self._spread[self._axis] = shape[-1]

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        centred = value - value.mean(self._axis, keepdims=True)
        variance = jnp.square(centred).mean(self._axis, keepdims=True)
        weight = self.weight[...].reshape(self._spread)
        return centred * lax.rsqrt(variance + self._eps) * weight + self.bias[...].reshape(
            self._spread
        )


class Dropout(Layer):
    """Zeroes that share of the values in training and scales the others up."""

    def __init__(self, rate: float) -> None:
        self._dropout = nnx.Dropout(rate)

    def __call__(self, value: Any, train: bool, key: Any) -> Any:
        return self._dropout(value, deterministic=not train, rngs=key if train else None)


class Embedding(Layer):
    """One trained vector for each token."""

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        return self.weight[...].take(value, axis=0)


class PositionEmbedding(Layer):
    """Adds a trained vector to each step."""

    def __call__(self, value: Any, train: bool, key: Any) -> Any:  # noqa: ARG002
        return value + self.weight[...]


class Lstm(Layer):
    """LSTM layers with one trained bias; gives the last layer's output at each step.

    Gates stand in torch's order: input, forget, cell, output.
    """

    def __init__(self, attributes: Attributes) -> None:
        self._layers, self._hidden = attributes["layers"], attributes["hidden"]
        self._dropout = nnx.Dropout(attributes["dropout"])

    def from_torch(self, name: str, values: Any) -> Any:
        """Turned: torch keeps gates × inputs."""
        return values.T if name.startswith("weight") else values

    def __call__(self, value: Any, train: bool, key: Any) -> Any:
        for layer in range(self._layers):
            if layer:
                inner = jax.random.fold_in(key, layer) if train else None
                value = self._dropout(value, deterministic=not train, rngs=inner)
            value = self._run_layer(layer, value)
        return value

    def _run_layer(self, layer: int, value: Any) -> Any:
        weight = getattr(self, f"weight_hh_l{layer}")[...]
        taken = value @ getattr(self, f"weight_ih_l{layer}")[...]
        taken = taken + getattr(self, f"bias_ih_l{layer}")[...]

        def step(state: Any, inputs: Any) -> Any:
            output, cell = state
            gates = inputs + output @ weight
            enter, forget, new, leave = jnp.split(gates, 4, axis=-1)
            cell = nnx.sigmoid(forget) * cell + nnx.sigmoid(enter) * jnp.tanh(new)
            output = nnx.sigmoid(leave) * jnp.tanh(cell)
            return (output, cell), output

        zeros = jnp.zeros((value.shape[0], self._hidden), value.dtype)
        _, outputs = lax.scan(step, (zeros, zeros), taken.swapaxes(0, 1))
        return outputs.swapaxes(0, 1)


class SelfAttention(Layer):
    """Multi-head scaled dot-product attention of a sequence to itself."""

    def __init__(self, attributes: Attributes) -> None:
        self._heads, self._causal = attributes["heads"], attributes["causal"]
        self._dropout = nnx.Dropout(attributes["dropout"])

    def from_torch(self, name: str, values: Any) -> Any:
        """Turned: torch keeps outputs × inputs."""
        return values.T if name.endswith("weight") else values

    def __call__(self, value: Any, train: bool, key: Any) -> Any:
        batch, time, width = value.shape
        projected = value @ self.in_weight[...] + self.in_bias[...]
        split = projected.reshape(batch, time, 3, self._heads, width // self._heads)
        query, keys, values = jnp.moveaxis(split, 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, keys) / math.sqrt(width // self._heads)
        if self._causal:
            seen = jnp.tril(jnp.ones((time, time), bool))
            scores = jnp.where(seen, scores, -jnp.inf)
        weights = nnx.softmax(scores, axis=-1)
        weights = self._dropout(weights, deterministic=not train, rngs=key if train else None)
        joined = jnp.einsum("bhqk,bkhd->bqhd", weights, values).reshape(batch, time, width)
        return joined @ self.out_weight[...] + self.out_bias[...]


def last_axis(shape: Shape) -> int:
    """Where the last dimension of the graph's layout stands: an image's width, or the last."""
    return 2 if len(shape) == 3 else len(shape)


def _max_pool(attributes: Attributes, shape: Shape, output: Shape) -> Callable[..., Any]:
    pads = ((0, 0), *find_pads(shape[1:], output[1:], attributes), (0, 0))
    window, stride = (1, *attributes["kernel"], 1), (1, *attributes["stride"], 1)
    return lambda value: lax.reduce_window(value, -jnp.inf, lax.max, window, stride, pads)


def _mean_pool(
    kernel: Sequence[int], stride: Sequence[int], pads: Any, scales: Any
) -> Callable[..., Any]:
    window, strides = (1, *kernel, 1), (1, *stride, 1)
    pads = ((0, 0), *pads, (0, 0))
    factor = numpy.float32(1.0 / math.prod(kernel))
    if scales is not None:
        factor = factor * numpy.asarray(scales, numpy.float32)[None, :, :, None]
    return lambda value: lax.reduce_window(value, 0.0, lax.add, window, strides, pads) * factor


def _avg_pool(attributes: Attributes, shape: Shape, output: Shape) -> Callable[..., Any]:
    pads = find_pads(shape[1:], output[1:], attributes)
    scales = mean_scales(shape[1:], output[1:], attributes)
    return _mean_pool(attributes["kernel"], attributes["stride"], pads, scales)


def _adaptive_pool(shape: Shape, output: Shape) -> Callable[..., Any]:
    size, cells = shape[1:], output[1:]
    if size == cells:
        return lambda value: value
    if cells == (1, 1):
        return lambda value: value.mean((1, 2), keepdims=True)
    window = adaptive_window(size, cells)
    if window is not None:
        return _mean_pool(window, window, ((0, 0), (0, 0)), None)
    high = numpy.asarray(adaptive_means(size[0], cells[0]), numpy.float32)
    wide = numpy.asarray(adaptive_means(size[1], cells[1]), numpy.float32)
    return lambda value: jnp.einsum("nhwc,oh,pw->nopc", value, high, wide)


def _flatten(shape: Shape) -> Callable[..., Any]:
    def flatten(value: Any) -> Any:
        if len(shape) == 3:
            # Channels first, as the weights of the next layer count.
            value = value.transpose(0, 3, 1, 2)
        return value.reshape(value.shape[0], -1)

    return flatten


def _concat(shape: Shape) -> Callable[..., Any]:
    axis = 3 if len(shape) == 3 else 1
    return lambda *values: jnp.concatenate(values, axis)


def _add(first: Any, *others: Any) -> Any:
    for other in others:
        first = first + other
    return first


def _leaky(attributes: Attributes) -> Callable[..., Any]:
    slope = attributes.get("negative_slope", 0.01)
    return lambda value: nnx.leaky_relu(value, slope)


Builder = Callable[[Attributes, Shapes, Shape], Layer]

BUILDERS: Mapping[str, Builder] = {
    "linear": lambda _a, _s, _o: Linear(),
    "linear_over_time": lambda _a, _s, _o: Linear(),
    "conv2d": lambda a, _s, _o: Convolution(a),
    "max_pool2d": lambda a, s, o: Plain(_max_pool(a, s[0], o)),
    "avg_pool2d": lambda a, s, o: Plain(_avg_pool(a, s[0], o)),
    "adaptive_avg_pool2d": lambda _a, s, o: Plain(_adaptive_pool(s[0], o)),
    "batch_norm": lambda a, s, _o: BatchNorm(a, s[0]),
    "layer_norm": lambda a, s, _o: LayerNorm(a, s[0]),
    "add": lambda _a, _s, _o: Plain(_add),
    "concat": lambda _a, s, _o: Plain(_concat(s[0])),
    "relu": lambda _a, _s, _o: Plain(nnx.relu),
    "leaky_relu": lambda a, _s, _o: Plain(_leaky(a)),
    "tanh": lambda _a, _s, _o: Plain(jnp.tanh),
    "sigmoid": lambda _a, _s, _o: Plain(nnx.sigmoid),
    "silu": lambda _a, _s, _o: Plain(nnx.silu),
    "gelu": lambda _a, _s, _o: Plain(lambda value: nnx.gelu(value, approximate=False)),
    "softmax": lambda _a, s, _o: Plain(lambda value: nnx.softmax(value, axis=last_axis(s[0]))),
    "dropout": lambda a, _s, _o: Dropout(a["rate"]),
    "flatten": lambda _a, s, _o: Plain(_flatten(s[0])),
    "embedding": lambda _a, _s, _o: Embedding(),
    "position_embedding": lambda _a, _s, _o: PositionEmbedding(),
    "lstm": lambda a, _s, _o: Lstm(a),
    "self_attention": lambda a, _s, _o: SelfAttention(a),
    "mean_over_time": lambda _a, _s, _o: Plain(lambda value: value.mean(1)),
    "last_step": lambda _a, _s, _o: Plain(lambda value: value[:, -1]),
}
