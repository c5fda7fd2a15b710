"""Floating-point operations of traced steps, from the shapes of products, convolutions, attention.

Counts what the operations ran: what is computed twice (checkpointing) counts twice, what a compiler
wrote itself in place of a library's product is not seen. A multiplication and an addition are two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

_TYPES = {
    "float": "float32",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "double": "float64",
}
_ATTENTION = re.compile(r"aten::_scaled_dot_product_\w*attention\w*")
_LARGEST = 10**18
"""Of one operation: shapes may come from anyone's file."""


class Shaped(NamedTuple):
    """An operation whose shapes were recorded."""

    start_ns: int
    flop: int
    kind: str
    """Number type of what it multiplies."""


def read_shaped(name: str, start_ns: int, arguments: Mapping[str, Any]) -> Shaped | None:
    """The operation's count; None where it is none that counts. ValueError where it is damaged."""
    rule = _RULES.get(name) or (_attention if _ATTENTION.fullmatch(name) else None)
    dims = arguments.get("Input Dims")
    if rule is None or not isinstance(dims, list):
        return None
    flop = rule(name, dims, arguments)
    if not 0 <= flop < _LARGEST:
        raise ValueError
    kinds = arguments.get("Input type")
    first = next((k for k in kinds if k in _TYPES), "") if isinstance(kinds, list) else ""
    return Shaped(start_ns, flop, _TYPES.get(first, "other"))


def flop_of_steps(found: Sequence[Shaped], steps: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Operations of a mean step by number type; `steps` are begin and end of each."""
    counts: dict[str, float] = {}
    for one in found:
        if any(begin <= one.start_ns < end for begin, end in steps):
            counts[one.kind] = counts.get(one.kind, 0.0) + one.flop / len(steps)
    return counts


def _size(shape: Sequence[Any]) -> int:
    return prod(map(int, shape))


def _product(at: int) -> Callable[[str, list[Any], Mapping[str, Any]], int]:
    def count(_name: str, dims: list[Any], _arguments: Mapping[str, Any]) -> int:
        left, right = dims[at], dims[at + 1]
        return 2 * _size(left) * int(right[-1])

    return count


def _convolution_backward(_name: str, dims: list[Any], arguments: Mapping[str, Any]) -> int:
    """With the forward pass before it, whose result's size only this one tells."""
    made, given, weight = dims[0], dims[1], dims[2]
    if weight[0] == made[1]:
        one = 2 * _size(made) * _size(weight[1:])
    else:  # transposed
        one = 2 * _size(given) * _size(weight[1:])
    concrete = arguments.get("Concrete Inputs")
    mask = concrete[-1] if isinstance(concrete, list) and concrete else None
    passes = str(mask).split(",")[:2] if mask else []
    wanted = sum("True" in part for part in passes) if passes else 2
    return one * (1 + wanted)


def _attention(name: str, dims: list[Any], _arguments: Mapping[str, Any]) -> int:
    backward = "backward" in name
    query, key = (dims[1], dims[2]) if backward else (dims[0], dims[1])
    return 4 * _size(query) * int(key[-2]) * (2 if backward else 1)


def _recurrent(name: str, dims: list[Any], _arguments: Mapping[str, Any]) -> int:
    given = dims[0]
    weights = [shape for shape in dims[1] if len(shape) == 2]
    one = 2 * int(given[0]) * int(given[1]) * sum(map(_size, weights))
    return one * (2 if "backward" in name else 1)


_RULES: Mapping[str, Callable[[str, list[Any], Mapping[str, Any]], int]] = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::_scaled_mm": _product(0),
    "aten::addmm": _product(1),
    "aten::_addmm_activation": _product(1),
    "aten::baddbmm": _product(1),
    "aten::convolution_backward": _convolution_backward,
    "aten::_cudnn_rnn": _recurrent,
    "aten::_cudnn_rnn_backward": _recurrent,
}
