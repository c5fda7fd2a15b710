"""The staging memory of torch's reductions (sum, mean, norm…) over a large tensor.

Follows `setReduceConfig` of `aten/src/ATen/native/cuda/Reduce.cuh` step by step. Where one output
is summed by several thread blocks, each block's partial sums are staged: one buffer, and one
counter per column of blocks. Computes from sizes alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

WARP = 32
MAX_THREADS = 512
THREADS_PER_MULTIPROCESSOR = 2048
_MIN_VALUES, _MAX_VALUES = 16, 256
_VECTOR = 4


@dataclass(frozen=True, kw_only=True)
class Staging:
    """Bytes of the two buffers; both 0 where one block makes each output."""

    partial_bytes: int = 0
    counter_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """The input as the reduction walks it: merged dimensions as (size, stride), fastest first."""

    reduced: tuple[tuple[int, int], ...]
    kept: tuple[tuple[int, int], ...]


def _merged(sides: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for size, stride in sorted((side for side in sides if side[0] > 1), key=lambda s: s[1]):
        if merged and merged[-1][0] * merged[-1][1] == stride:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return tuple(merged)


def _sides(
    shape: Sequence[int], strides: Sequence[int] | None, dims: Sequence[int] | None
) -> _Sides:
    if strides is None:
        made: list[int] = []
        step = 1
        for size in reversed(shape):
            made.append(step)
            step *= size
        strides = made[::-1]
    chosen = range(len(shape)) if not dims else [dim % len(shape) for dim in dims]
    pairs = list(zip(shape, strides, strict=True))
    return _Sides(
        reduced=_merged([pairs[dim] for dim in chosen]),
        kept=_merged([pair for dim, pair in enumerate(pairs) if dim not in chosen]),
    )


def _up(value: int, step: int) -> int:
    return -(-value // step)


def _last_power(value: int) -> int:
    return 1 << (max(value, 1).bit_length() - 1)


def _output_vector(sides: _Sides) -> int:
    """How many neighbouring outputs one thread makes."""
    numbers = [sides.kept[0][0], *[stride for _, stride in (*sides.reduced, *sides.kept[1:])]]
    vector = _VECTOR
    for number in numbers:
        while number % vector:
            vector //= 2
    return vector


def staging(
    shape: Sequence[int],
    strides: Sequence[int] | None,
    dims: Sequence[int] | None,
    *,
    sum_bytes: int = 4,
    multiprocessors: int = 132,
) -> Staging:
    """The two buffers of a reduction over `dims` (all, where none are named)."""
    sides = _sides(shape, strides, dims)
    inputs = outputs = 1
    for size, _ in sides.reduced:
        inputs *= size
    for size, _ in sides.kept:
        outputs *= size
    if inputs <= 1 or outputs < 1:
        return Staging()
    along = not sides.kept or sides.reduced[0][1] < sides.kept[0][1]
    vector = 1
    across, deep = (inputs, outputs) if along else (outputs, inputs)
    fastest = (sides.reduced if along else sides.kept)[0][1]
    if fastest == 1 and along and across > 128 and not sides.kept and len(sides.reduced) == 1:
        across //= _VECTOR
    elif fastest == 1 and not along:
        vector = _output_vector(sides)
        across //= vector
    most = MAX_THREADS // vector
    across_power = _last_power(across) if across < most else most
    deep_power = _last_power(deep) if deep < most else most
    width = min(across_power, WARP)
    height = min(deep_power, most // width)
    width = min(across_power, most // height)
    step_in, step_out = (width, 1) if along else (1, width)
    values = _up(inputs, step_in)
    if not (values >= height * 16 or values >= _MAX_VALUES):
        return Staging()
    step_in *= height
    values = _up(inputs, step_in)
    columns = _up(outputs // vector, step_out)
    wanted = multiprocessors * (THREADS_PER_MULTIPROCESSOR // (width * height))
    if values < _MAX_VALUES or columns > wanted:
        return Staging()
    blocks = max(min(_up(wanted, columns), _up(values, _MIN_VALUES)), _up(values, _MAX_VALUES))
    if blocks <= 1:
        return Staging()
    partial = sum_bytes * outputs * blocks * (1 if along else width * vector)
    return Staging(partial_bytes=partial, counter_bytes=4 * columns)
