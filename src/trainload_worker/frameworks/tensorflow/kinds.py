"""A Keras layer for each kind of layer; knows no graph.

Images are batch × height × width × channels: TensorFlow convolves nothing else on the CPU. A
layer's parameters are named as the graph names them and made from arrays in torch's layout.
Keras' own layers are used where they compute the same; where they differ in padding or in what
they keep, TensorFlow's operations stand here instead.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Tuple

import keras
import numpy
import tensorflow as tf

from trainload_worker.frameworks.arrays.pooling import (
    adaptive_means,
    adaptive_window,
    find_pads,
    mean_scales,
)

Attributes = Mapping[str, Any]
Shape = Tuple[int, ...]
Shapes = Tuple[Shape, ...]
Parameters = Mapping[str, Any]


class Layer(keras.layers.Layer):  # type: ignore[misc]  # keras is not typed here
    """One layer; without parameters unless a sub-class makes some."""

    def take(self, name: str, values: Any) -> Any:
        """A trained variable that starts with these values."""
        return self.add_weight(
            name=name, shape=values.shape, initializer=keras.initializers.Constant(values)
        )


class Plain(Layer):
    """A function of the inputs alone."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__(name=name)
        self._function = function

    def call(self, *values: Any) -> Any:
        """The function's result."""
        return self._function(*values)


class Linear(Layer):
    """An affine map of the last dimension; the weight is inputs × units."""

    def __init__(self, name: str, parameters: Parameters) -> None:
        super().__init__(name=name)
        self.weight = self.take("weight", parameters["weight"].T)
        self.bias = self.take("bias", parameters["bias"]) if "bias" in parameters else None

    def call(self, value: Any) -> Any:
        """The product with the weight, and the bias added."""
        product = tf.matmul(value, self.weight)
        return product if self.bias is None else tf.nn.bias_add(product, self.bias)


class Convolution(Layer):
    """A two-dimensional convolution; the weight is height × width × inputs × outputs."""

    def __init__(self, name: str, attributes: Attributes, parameters: Parameters) -> None:
        super().__init__(name=name)
        self.weight = self.take("weight", parameters["weight"].transpose(2, 3, 1, 0))
        self.bias = self.take("bias", parameters["bias"]) if "bias" in parameters else None
        self._stride = list(attributes["stride"])
        self._dilation = tuple(attributes["dilation"])
        self._groups = attributes["groups"]
        self._padding = explicit_pads([(pad, pad) for pad in attributes["padding"]])

    def call(self, value: Any) -> Any:
        """The convolution, and the bias added; groups one by one, which the CPU needs."""
        if self._groups == 1:
            result = self._convolve(value, self.weight)
        else:
            parts = zip(
                tf.split(value, self._groups, axis=3), tf.split(self.weight, self._groups, axis=3)
            )
            result = tf.concat([self._convolve(*part) for part in parts], axis=3)
        return result if self.bias is None else tf.nn.bias_add(result, self.bias)

    def _convolve(self, value: Any, weight: Any) -> Any:
        if self._dilation != (1, 1):
            weight = _dilate(weight, self._dilation)
        return tf.nn.conv2d(value, weight, self._stride, self._padding)


def _dilate(weight: Any, dilation: tuple[int, int]) -> Any:
    """The kernel with zeros between its values: the CPU has no gradient of dilation itself."""
    height, width, taken, given = weight.shape
    high, wide = dilation
    spread = tf.reshape(weight, [height, 1, width, 1, taken, given])
    spread = tf.pad(spread, [[0, 0], [0, high - 1], [0, 0], [0, wide - 1], [0, 0], [0, 0]])
    spread = tf.reshape(spread, [height * high, width * wide, taken, given])
    return spread[: (height - 1) * high + 1, : (width - 1) * wide + 1]


class BatchNorm(Layer):
    """Normalises each channel; `momentum` is the share of the new value in the running figures.

    TensorFlow's fused operation gives the unbiased variance, which torch keeps too; Keras' own
    layer would keep the biased.
    """

    def __init__(
        self, name: str, attributes: Attributes, shape: Shape, parameters: Parameters
    ) -> None:
        super().__init__(name=name)
        self._share, self._eps = attributes["momentum"], attributes["eps"]
        self._flat = len(shape) == 1
        self.weight = self.take("weight", parameters["weight"])
        self.bias = self.take("bias", parameters["bias"])
        self.mean = self.add_weight(
            name="mean", shape=shape[:1], initializer="zeros", trainable=False
        )
        self.variance = self.add_weight(
            name="variance", shape=shape[:1], initializer="ones", trainable=False
        )

    def call(self, value: Any, training: bool = False) -> Any:
        """Normalised by the batch in training, by the running figures elsewhere."""
        given = value[:, None, None, :] if self._flat else value
        arguments = {"scale": self.weight.value, "offset": self.bias.value, "epsilon": self._eps}
        if training:
            result, mean, variance = tf.compat.v1.nn.fused_batch_norm(
                given, is_training=True, **arguments
            )
            self.mean.assign(self.mean + self._share * (mean - self.mean))
            self.variance.assign(self.variance + self._share * (variance - self.variance))
        else:
            result, _, _ = tf.compat.v1.nn.fused_batch_norm(
                given,
                mean=self.mean.value,
                variance=self.variance.value,
                is_training=False,
                **arguments,
            )
        return result[:, 0, 0, :] if self._flat else result


class LayerNorm(Layer):
    """Normalises along the last dimension of the graph's layout."""

    def __init__(self, name: str, eps: float, shape: Shape, parameters: Parameters) -> None:
        super().__init__(name=name)
        self._eps, self._axis = eps, last_axis(shape)
        self._spread = [1] * (len(shape) + 1)
        self._spread[self._axis] = shape[-1]
        self.weight = self.take("weight", parameters["weight"])
        self.bias = self.take("bias", parameters["bias"])

    def call(self, value: Any) -> Any:
        """Mean 0 and deviation 1, then scaled and shifted."""
        mean, variance = tf.nn.moments(value, [self._axis], keepdims=True)
        weight = tf.reshape(self.weight.value, self._spread)
        bias = tf.reshape(self.bias.value, self._spread)
        return tf.nn.batch_normalization(value, mean, variance, bias, weight, self._eps)


class Embedding(Layer):
    """One trained vector for each token."""

    def __init__(self, name: str, parameters: Parameters) -> None:
        super().__init__(name=name)
        self.weight = self.take("weight", parameters["weight"])

    def call(self, value: Any) -> Any:
        """The vectors of the tokens."""
        return tf.gather(self.weight.value, value)


class PositionEmbedding(Layer):
    """Adds a trained vector to each step."""

    def __init__(self, name: str, parameters: Parameters) -> None:
        super().__init__(name=name)
        self.weight = self.take("weight", parameters["weight"])

    def call(self, value: Any) -> Any:
        """The sum."""
        return value + self.weight


class Lstm(Layer):
    """LSTM layers with one bias; gives the last layer's output at each step.

    Keras' gates stand in torch's order: input, forget, cell, output.
    """

    def __init__(self, name: str, attributes: Attributes, parameters: Parameters) -> None:
        super().__init__(name=name)
        self._layers = []
        self._dropout = keras.layers.Dropout(attributes["dropout"])
        for number in range(attributes["layers"]):
            layer = keras.layers.LSTM(
                attributes["hidden"], return_sequences=True, name=f"l{number}"
            )
            taken = parameters[f"weight_ih_l{number}"].T
            layer.build((None, None, taken.shape[0]))
            kept = parameters[f"weight_hh_l{number}"].T
            layer.set_weights([taken, kept, parameters[f"bias_ih_l{number}"]])
            self._layers.append(layer)

    @property
    def recurrent_cells(self) -> list[Any]:
        """The cells that hold the trained variables, from the first layer on."""
        return [layer.cell for layer in self._layers]

    def call(self, value: Any, training: bool = False) -> Any:
        """Starts from a state of zeros."""
        for number, layer in enumerate(self._layers):
            if number:
                value = self._dropout(value, training=training)
            value = layer(value, training=training)
        return value


class SelfAttention(Layer):
    """Multi-head scaled dot-product attention of a sequence to itself."""

    def __init__(
        self, name: str, attributes: Attributes, shape: Shape, parameters: Parameters
    ) -> None:
        super().__init__(name=name)
        self._time, self._width = shape
        self._heads, self._causal = attributes["heads"], attributes["causal"]
        self._dropout = keras.layers.Dropout(attributes["dropout"])
        self.in_weight = self.take("in_weight", parameters["in_weight"].T)
        self.in_bias = self.take("in_bias", parameters["in_bias"])
        self.out_weight = self.take("out_weight", parameters["out_weight"].T)
        self.out_bias = self.take("out_bias", parameters["out_bias"])

    def call(self, value: Any, training: bool = False) -> Any:
        """Attends in all heads at once and projects the joined heads."""
        deep = self._width // self._heads
        projected = tf.nn.bias_add(tf.matmul(value, self.in_weight), self.in_bias)
        split = tf.reshape(projected, [-1, self._time, 3, self._heads, deep])
        query, key, values = tf.unstack(tf.transpose(split, [2, 0, 3, 1, 4]))
        scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(deep)
        if self._causal:
            seen: Any = numpy.tril(numpy.ones((self._time, self._time), bool))
            scores = tf.where(seen, scores, -numpy.inf)
        weights = self._dropout(tf.nn.softmax(scores), training=training)
        joined = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])
        joined = tf.reshape(joined, [-1, self._time, self._width])
        return tf.nn.bias_add(tf.matmul(joined, self.out_weight), self.out_bias)


def last_axis(shape: Shape) -> int:
    """Where the last dimension of the graph's layout stands: an image's width, or the last."""
    return 2 if len(shape) == 3 else len(shape)


def explicit_pads(pads: Any) -> Any:
    """TensorFlow's words for padding before and after in height and width."""
    if not any(pad for pair in pads for pad in pair):
        return "VALID"
    return [[0, 0], list(pads[0]), list(pads[1]), [0, 0]]


def _max_pool(attributes: Attributes, shape: Shape, output: Shape) -> Callable[..., Any]:
    pads = explicit_pads(find_pads(shape[1:], output[1:], attributes))
    kernel, stride = list(attributes["kernel"]), list(attributes["stride"])
    return lambda value: tf.nn.max_pool2d(value, kernel, stride, pads)


def _avg_pool(attributes: Attributes, shape: Shape, output: Shape) -> Callable[..., Any]:
    pads = explicit_pads(find_pads(shape[1:], output[1:], attributes))
    scales = mean_scales(shape[1:], output[1:], attributes)
    kernel, stride = list(attributes["kernel"]), list(attributes["stride"])
    if scales is not None:
        scales = numpy.asarray(scales, numpy.float32)[None, :, :, None]

    def pool(value: Any) -> Any:
        padded = value if pads == "VALID" else tf.pad(value, pads)
        means = tf.nn.avg_pool2d(padded, kernel, stride, "VALID")
        return means if scales is None else means * scales

    return pool


def _adaptive_pool(shape: Shape, output: Shape) -> Callable[..., Any]:
    size, cells = shape[1:], output[1:]
    if size == cells:
        return lambda value: value
    if cells == (1, 1):
        return lambda value: tf.reduce_mean(value, [1, 2], keepdims=True)
    window = adaptive_window(size, cells)
    if window is not None:
        return lambda value: tf.nn.avg_pool2d(value, window, window, "VALID")
    high = numpy.asarray(adaptive_means(size[0], cells[0]), numpy.float32)
    wide = numpy.asarray(adaptive_means(size[1], cells[1]), numpy.float32)
    return lambda value: tf.einsum("nhwc,oh,pw->nopc", value, high, wide)


def _flatten(shape: Shape) -> Callable[..., Any]:
    width = math.prod(shape)

    def flatten(value: Any) -> Any:
        if len(shape) == 3:
            # Channels first, as the weights of the next layer count.
            value = tf.transpose(value, [0, 3, 1, 2])
        return tf.reshape(value, [-1, width])

    return flatten


def _concat(shape: Shape) -> Callable[..., Any]:
    axis = 3 if len(shape) == 3 else 1
    return lambda *values: tf.concat(values, axis)


def _add(first: Any, *others: Any) -> Any:
    for other in others:
        first = first + other
    return first


def _leaky(attributes: Attributes) -> Callable[..., Any]:
    slope = attributes.get("negative_slope", 0.01)
    return lambda value: tf.nn.leaky_relu(value, slope)


def _softmax(shape: Shape) -> Callable[..., Any]:
    return lambda value: tf.nn.softmax(value, axis=last_axis(shape))


def _gelu(value: Any) -> Any:
    return tf.nn.gelu(value, approximate=False)


Builder = Callable[[str, Attributes, Shapes, Shape, Parameters], Layer]

BUILDERS: Mapping[str, Builder] = {
    "linear": lambda n, _a, _s, _o, p: Linear(n, p),
    "linear_over_time": lambda n, _a, _s, _o, p: Linear(n, p),
    "conv2d": lambda n, a, _s, _o, p: Convolution(n, a, p),
    "max_pool2d": lambda n, a, s, o, _p: Plain(n, _max_pool(a, s[0], o)),
    "avg_pool2d": lambda n, a, s, o, _p: Plain(n, _avg_pool(a, s[0], o)),
    "adaptive_avg_pool2d": lambda n, _a, s, o, _p: Plain(n, _adaptive_pool(s[0], o)),
    "batch_norm": lambda n, a, s, _o, p: BatchNorm(n, a, s[0], p),
    "layer_norm": lambda n, a, s, _o, p: LayerNorm(n, a["eps"], s[0], p),
    "add": lambda n, _a, _s, _o, _p: Plain(n, _add),
    "concat": lambda n, _a, s, _o, _p: Plain(n, _concat(s[0])),
    "relu": lambda n, _a, _s, _o, _p: Plain(n, tf.nn.relu),
    "leaky_relu": lambda n, a, _s, _o, _p: Plain(n, _leaky(a)),
    "tanh": lambda n, _a, _s, _o, _p: Plain(n, tf.nn.tanh),
    "sigmoid": lambda n, _a, _s, _o, _p: Plain(n, tf.nn.sigmoid),
    "silu": lambda n, _a, _s, _o, _p: Plain(n, tf.nn.silu),
    "gelu": lambda n, _a, _s, _o, _p: Plain(n, _gelu),
    "softmax": lambda n, _a, s, _o, _p: Plain(n, _softmax(s[0])),
    "dropout": lambda n, a, _s, _o, _p: keras.layers.Dropout(a["rate"], name=n),
    "flatten": lambda n, _a, s, _o, _p: Plain(n, _flatten(s[0])),
    "embedding": lambda n, _a, _s, _o, p: Embedding(n, p),
    "position_embedding": lambda n, _a, _s, _o, p: PositionEmbedding(n, p),
    "lstm": lambda n, a, _s, _o, p: Lstm(n, a, p),
    "self_attention": lambda n, a, s, _o, p: SelfAttention(n, a, s[0], p),
    "mean_over_time": lambda n, _a, _s, _o, _p: Plain(n, lambda v: tf.reduce_mean(v, 1)),
    "last_step": lambda n, _a, _s, _o, _p: Plain(n, lambda v: v[:, -1]),
}
