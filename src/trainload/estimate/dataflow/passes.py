"""What the array can do at once under each dataflow: the passes that its elements allow.

Each function lists mappings that fit the elements and their registers; what a pass moves within
the array follows from the mapping alone. The buffer and the memory outside are `nest`'s affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from trainload.estimate.dataflow.accelerator import Accelerator
from trainload.estimate.dataflow.shapes import LoopShape

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One mapping of a group of a layer onto the array; counts are of the whole group."""

    filters: int
    channels: int
    rows: int
    columns: int
    elements: int
    """How many of them work."""
    holds: Literal["weight", "sum"] | None
    """What stays in the registers from one pass to the next."""
    folds: int = 1
    """Passes over the kernel's weights, where not all of them are in one."""
    rereads_input: int = 1
    """How often those passes read the same inputs again."""
    whole_batch: bool = False
    """Whether all images and positions have to pass before a weight may leave."""
    weight_fan: int = 1
    """Elements that each weight is sent to."""
    register_input: float = 0
    register_weight: float = 0
    register_sum: float = 0
    array_input: float = 0
    array_sum: float = 0

    def inner_energy(self, shape: LoopShape, hardware: Accelerator) -> float:
        """Of multiply-adds, registers and array, but for weights on their way in."""
        ratios = hardware.energy
        registers = self.register_input + self.register_weight + self.register_sum
        array = self.array_input + self.array_sum
        return shape.macs * ratios.mac + registers * ratios.register + array * ratios.array


def ceil_div(amount: int, part: int) -> int:
    """How many parts cover an amount."""
    return -(-amount // part)


@cache
def sizes(largest: int) -> tuple[int, ...]:
    """Sizes of tiles worth trying: even parts of a whole, the whole first."""
    return tuple(sorted({1, *(ceil_div(largest, part) for part in _PARTS)}, reverse=True))


def row_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """An element convolves a row; a set of kernel rows × output rows makes rows of outputs.

    Sets for `t` filters and `r` channels lie beside each other; each element takes `p` filters and
    `q` channels in turn. Its registers hold their weights, a window of inputs and `p` sums.
    """
    words, width = hardware.register_words("row"), shape.kernel_columns
    total = shape.macs
    passing = (
        shape.images * shape.output_rows * shape.channels * shape.columns_read(shape.output_columns)
    )
    for rows in sizes(shape.output_rows):
        sets = hardware.elements // (shape.kernel_rows * rows)
        if not sets:
            continue
        for t in sizes(min(shape.filters, sets)):
            # Longer chains and deeper elements only spare the buffer: the longest that fit.
            r = _largest(shape.channels, sets // t)
            for p in sizes(ceil_div(shape.filters, t)):
                most = (words - p) // ((p + 1) * width) if words > p else 0
                if most < 1:
                    continue
                q = _largest(ceil_div(shape.channels, r), most)
                depth, chain = width * q, shape.kernel_rows * r
                filters = min(p * t, shape.filters)
                sent = passing * shape.kernel_rows * t * ceil_div(shape.filters, filters)
                spread = shape.kernel_rows * rows * t / shape.rows_read(rows)
                uses = shape.images * ceil_div(shape.output_rows, rows) * shape.output_columns
                yield Pass(
                    filters=filters,
                    channels=min(q * r, shape.channels),
                    rows=rows,
                    columns=shape.output_columns,
                    elements=shape.kernel_rows * rows * t * r,
                    holds="weight",
                    weight_fan=rows,
                    register_input=total if p * width > 1 else 0,
                    register_weight=total if uses > 1 else 0,
                    register_sum=2 * total * (1 - 1 / depth),
                    array_input=sent if spread > 1 else 0,
                    array_sum=total / (depth * chain) * (chain - 1),
                )


def _largest(whole: int, most: int) -> int:
    """The largest even part of a whole that is no more than `most`."""
    return next(size for size in sizes(whole) if size <= most)


def weight_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """An element holds one weight until every input it meets has passed; sums move on."""
    total, taps = shape.macs, min(shape.taps, hardware.elements)
    folds, planes = ceil_div(shape.taps, taps), hardware.elements // taps
    for filters in sizes(min(shape.filters, planes)):
        for channels in sizes(min(shape.channels, planes // filters)):
            reads = shape.inputs * ceil_div(shape.filters, filters) * folds
            uses = shape.images * shape.output_rows * shape.output_columns
            yield Pass(
                filters=filters,
                channels=channels,
                rows=shape.output_rows,
                columns=shape.output_columns,
                elements=taps * filters * channels,
                holds="weight",
                folds=folds,
                rereads_input=folds,
                whole_batch=True,
                register_weight=total if uses > 1 else 0,
                array_input=total if total > reads else 0,
                array_sum=total * (1 - 1 / (taps * channels)),
            )


def _output_passes(shape: LoopShape, blocks: Iterator[tuple[int, int, int]]) -> Iterator[Pass]:
    """An element keeps the sum of one output until it is whole; inputs and weights pass by."""
    total = shape.macs
    for filters, rows, columns in blocks:
        reads = _input_reads(shape, filters, rows, columns)
        yield Pass(
            filters=filters,
            channels=shape.channels,
            rows=rows,
            columns=columns,
            elements=filters * rows * columns,
            holds="sum",
            weight_fan=rows * columns,
            register_sum=2 * total * (1 - 1 / (shape.channels * shape.taps)),
            array_input=total if total > reads else 0,
        )


def _input_reads(shape: LoopShape, filters: int, rows: int, columns: int) -> int:
    high = ceil_div(shape.output_rows, rows) * shape.rows_read(rows)
    wide = ceil_div(shape.output_columns, columns) * shape.columns_read(columns)
    return shape.images * shape.channels * high * wide * ceil_div(shape.filters, filters)


def plane_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """Outputs of one filter, in a rectangle."""
    return _output_passes(
        shape,
        (
            (1, rows, columns)
            for rows in sizes(min(shape.output_rows, hardware.elements))
            for columns in sizes(min(shape.output_columns, hardware.elements // rows))
        ),
    )


def mixed_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """Outputs of several filters, in a row."""
    return _output_passes(
        shape,
        (
            (filters, 1, columns)
            for columns in sizes(min(shape.output_columns, hardware.elements))
            for filters in sizes(min(shape.filters, hardware.elements // columns))
        ),
    )


def channel_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """One output position of several filters."""
    most = min(shape.filters, hardware.elements)
    return _output_passes(shape, ((filters, 1, 1) for filters in sizes(most)))


def no_local_passes(shape: LoopShape, hardware: Accelerator) -> Iterator[Pass]:
    """Nothing stays: groups of filters share an input, channels add up across the array."""
    total = shape.macs
    for filters in sizes(min(shape.filters, hardware.elements)):
        for channels in sizes(min(shape.channels, hardware.elements // filters)):
            yield Pass(
                filters=filters,
                channels=channels,
                rows=1,
                columns=1,
                elements=filters * channels,
                holds=None,
                folds=shape.taps,
                array_input=total if filters > 1 else 0,
                array_sum=total * (1 - 1 / channels),
            )


PASSES: dict[str, Callable[[LoopShape, Accelerator], Iterator[Pass]]] = {
    "row": row_passes,
    "weight": weight_passes,
    "output_plane": plane_passes,
    "output_mixed": mixed_passes,
    "output_channel": channel_passes,
    "no_local": no_local_passes,
}
"""By the names of DATAFLOWS."""
