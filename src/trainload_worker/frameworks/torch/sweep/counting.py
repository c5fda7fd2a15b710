"""FLOPs and least bytes of one call of an operation, by its sizes; imports no framework.

A multiplication and an addition are two FLOPs. Least bytes: each operand read once, each result
written once, as if all else stayed in caches.
"""

from __future__ import annotations

from typing import Callable, Mapping, Tuple

Counted = Tuple[float, float]
Sizes = Mapping[str, int]

ELEMENT_BYTES = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
_INDEX_BYTES = 8
_OPTIMIZER_FLOPS = {0: 2, 1: 4, 2: 12}
"""For each weight, by the number of moments."""


def count(operation: str, sizes: Sizes, dtype: str) -> Counted:
    """FLOPs and least bytes of one call."""
    return _COUNTS[operation](sizes, ELEMENT_BYTES[dtype])


def output_length(length: int, kernel: int, stride: int) -> int:
    """Height or width that a convolution gives which is padded as `padding_of` says."""
    return (length + 2 * padding_of(kernel) - kernel) // stride + 1


def padding_of(kernel: int) -> int:
    """What keeps the size with an odd kernel and stride 1."""
    return (kernel - 1) // 2


def _linear(s: Sizes, e: int) -> Counted:
    m, n, k = s["m"], s["n"], s["k"]
    return 2.0 * m * n * k, float(e * (m * k + n * k + m * n))


def _bmm(s: Sizes, e: int) -> Counted:
    flops, moved = _linear(s, e)
    return s["batch"] * flops, s["batch"] * moved


def _conv(s: Sizes, e: int) -> Counted:
    kernel, stride = s["kernel"], s["stride"]
    out = output_length(s["height"], kernel, stride) * output_length(s["width"], kernel, stride)
    weights = s["out_channels"] * (s["in_channels"] // s["groups"]) * kernel * kernel
    before = s["batch"] * s["in_channels"] * s["height"] * s["width"]
    after = s["batch"] * s["out_channels"] * out
    return 2.0 * s["batch"] * out * weights, float(e * (before + weights + after))


def _attention(s: Sizes, e: int) -> Counted:
    pairs = s["batch"] * s["heads"] * s["queries"] * s["keys"] * s["head_size"]
    rows = s["batch"] * s["heads"] * s["head_size"]
    # Under a causal mask half of the products are needed.
    flops = 4.0 * pairs * (0.5 if s["causal"] else 1.0)
    return flops, float(2 * e * rows * (s["queries"] + s["keys"]))


def _attention_backward(s: Sizes, e: int) -> Counted:
    flops, moved = _attention(s, e)
    # Five products against two, scores computed again (Dao, FlashAttention-2, section 3.2);
    # queries, keys, values, result and its gradient are read, three gradients written.
    return 2.5 * flops, 2.0 * moved


def _items(s: Sizes) -> int:
    if "rows" in s:
        return s["rows"] * s["width"]
    return s["batch"] * s["channels"] * s["height"] * s["width"]


def _per_item(flops: float, moved: int) -> Callable[[Sizes, int], Counted]:
    return lambda s, e: (flops * _items(s), float(moved * e * _items(s)))


def _pool(s: Sizes, e: int) -> Counted:
    kernel, stride = s["kernel"], s["stride"]
    out = output_length(s["height"], kernel, stride) * output_length(s["width"], kernel, stride)
    results = s["batch"] * s["channels"] * out
    return float(results * kernel * kernel), float(e * _items(s) + (e + _INDEX_BYTES) * results)


def _pool_backward(s: Sizes, e: int) -> Counted:
    flops, moved = _pool(s, e)
    return flops / s["kernel"] ** 2, moved


def _reduction(s: Sizes, e: int) -> Counted:
    return float(_items(s)), float(e * (_items(s) + s["rows"]))


def _elementwise(s: Sizes, e: int) -> Counted:
    return float(s["elements"] * (s["operands"] - 1)), float(e * s["elements"] * s["operands"])


def _gather(s: Sizes, e: int) -> Counted:
    return 0.0, float(2 * e * _items(s) + _INDEX_BYTES * s["rows"])


def _scatter(s: Sizes, e: int) -> Counted:
    written = s["table"] * s["width"]
    return float(_items(s)), float(e * (_items(s) + written) + _INDEX_BYTES * s["rows"])


def _recurrent(gates: int, passes: int) -> Callable[[Sizes, int], Counted]:
    def counted(s: Sizes, e: int) -> Counted:
        hidden, given = s["hidden"], s["input"]
        weights = gates * hidden * (given + hidden + (s["layers"] - 1) * 2 * hidden)
        values = s["batch"] * s["steps"] * (given + s["layers"] * hidden)
        flops = 2.0 * s["batch"] * s["steps"] * weights
        return passes * flops, float(passes * e * (weights + values))

    return counted


def _optimizer(s: Sizes, e: int) -> Counted:
    # The weight is read and written, the gradient read, each moment read and written.
    moved = e * s["elements"] * (3 + 2 * s["moments"])
    return float(_OPTIMIZER_FLOPS[s["moments"]] * s["elements"]), float(moved)


def _copy(s: Sizes, e: int) -> Counted:
    return 0.0, float(e * s["elements"] * (1 if s["from_host"] else 2))


_COUNTS: Mapping[str, Callable[[Sizes, int], Counted]] = {
    "linear": _linear,
    "bmm": _bmm,
    "conv": _conv,
    "conv_grad_input": _conv,
    "conv_grad_weight": _conv,
    "attention": _attention,
    "attention_backward": _attention_backward,
    "norm": _per_item(5, 2),
    "norm_backward": _per_item(8, 3),
    "softmax": _per_item(4, 2),
    "softmax_backward": _per_item(3, 3),
    "pool": _pool,
    "pool_backward": _pool_backward,
    "reduction": _reduction,
    "elementwise": _elementwise,
    "gather": _gather,
    "scatter": _scatter,
    "lstm": _recurrent(4, 1),
    "lstm_backward": _recurrent(4, 2),
    "gru": _recurrent(3, 1),
    "gru_backward": _recurrent(3, 2),
    "optimizer": _optimizer,
    "copy": _copy,
}
