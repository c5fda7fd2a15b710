"""Passes put into loops: what buffer and memory outside move, and the cheapest loops that fit.

Two nests: tiles that the buffer holds, fetched from outside, and passes within a tile. Loops are
over positions (images and output rows), filters and channels; each operand is fetched again by the
loop it does not depend on, unless that loop is the innermost one and the operand stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trainload.estimate.dataflow.accelerator import Accelerator
from trainload.estimate.dataflow.passes import PASSES, Pass, ceil_div
from trainload.estimate.dataflow.shapes import LoopShape

Loop = Literal["positions", "filters", "channels"]
_LOOPS: tuple[Loop, ...] = ("positions", "filters", "channels")


class Moved(NamedTuple):
    """Words that one group moves, by operand and level; a write counts as a read does."""

    dram_input: float
    dram_weight: float
    dram_sum: float
    buffer_input: float
    buffer_weight: float
    buffer_sum: float
    array_weight: float
    held_words: float
    """Of the buffer."""

    def energy(self, hardware: Accelerator) -> float:
        """Of buffer, memory outside and weights on their way in."""
        ratios = hardware.energy
        return (
            (self.dram_input + self.dram_weight + self.dram_sum) * ratios.dram
            + (self.buffer_input + self.buffer_weight + self.buffer_sum) * ratios.buffer
            + self.array_weight * ratios.array
        )


class Tile(NamedTuple):
    """What the buffer works on between two fetches, and the orders of the loops."""

    images: int
    rows: int
    filters: int
    channels: int
    innermost: Loop
    """Of the loops over tiles."""
    filters_outside: bool
    """Of the loops over passes: whether filters change less often than their rival does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """The cheapest way found to run one group of a layer under a dataflow."""

    one_pass: Pass
    tile: Tile
    moved: Moved
    energy: float
    """Of one group, in multiply-adds."""


def find_mapping(shape: LoopShape, dataflow: str, hardware: Accelerator) -> Mapping | None:
    """The cheapest mapping that fits; None where not even the smallest does."""
    capacity = hardware.buffer_words(dataflow)
    best: Mapping | None = None
    for floor, one_pass in _promising(shape, PASSES[dataflow](shape, hardware), hardware):
        if best is not None and floor >= best.energy:
            break
        inner = one_pass.inner_energy(shape, hardware)
        reads, loads = input_reads(shape, one_pass), weight_loads(shape, one_pass)
        for tile in _tiles(shape, one_pass):
            moved = move(shape, one_pass, tile, reads, loads)
            if moved.held_words > capacity:
                continue
            energy = inner + moved.energy(hardware)
            if best is None or energy < best.energy:
                best = Mapping(one_pass=one_pass, tile=tile, moved=moved, energy=energy)
    return best


def _promising(
    shape: LoopShape, passes: Iterable[Pass], hardware: Accelerator
) -> list[tuple[float, Pass]]:
    """Passes with the least that they can cost, cheapest first; of like ones the cheapest."""
    kept: dict[tuple[int, int, int, int], tuple[float, Pass]] = {}
    for one in passes:
        key = (one.filters, one.channels, one.rows, one.columns)
        floor = one.inner_energy(shape, hardware) + _least(shape, one, hardware)
        if key not in kept or floor < kept[key][0]:
            kept[key] = (floor, one)
    return sorted(kept.values(), key=lambda pair: pair[0])


def _least(shape: LoopShape, one: Pass, hardware: Accelerator) -> float:
    """No tile moves less: an operand once from outside and then from the buffer, or never kept."""
    ratios = hardware.energy
    reads, loads = input_reads(shape, one), weight_loads(shape, one)
    inputs = min(reads * ratios.dram, shape.inputs * ratios.dram + reads * ratios.buffer)
    weights = min(loads * ratios.dram, shape.weights * ratios.dram + loads * ratios.buffer)
    again = 2 * (_rounds(shape.channels, one) - 1) * min(ratios.buffer, ratios.dram)
    sent = loads * one.weight_fan * ratios.array if one.weight_fan > 1 else 0
    return inputs + weights + shape.outputs * (ratios.dram + again) + sent


def input_reads(shape: LoopShape, one: Pass) -> int:
    """Words of inputs that all passes take in."""
    high = ceil_div(shape.output_rows, one.rows) * shape.rows_read(one.rows)
    wide = ceil_div(shape.output_columns, one.columns) * shape.columns_read(one.columns)
    again = ceil_div(shape.filters, one.filters) * one.rereads_input
    return shape.images * shape.channels * high * wide * again


def weight_loads(shape: LoopShape, one: Pass) -> int:
    """Words of weights that passes take in, at least."""
    if one.holds == "weight":
        return shape.weights
    high = ceil_div(shape.output_rows, one.rows)
    wide = ceil_div(shape.output_columns, one.columns)
    return shape.weights * shape.images * high * wide


def _rounds(channels: int, one: Pass) -> int:
    """Passes whose sums are added up outside of the array."""
    return 1 if one.holds == "sum" else ceil_div(channels, one.channels) * one.folds


def _tiles(shape: LoopShape, one: Pass) -> Iterator[Tile]:
    spans = [(shape.images, shape.output_rows)]
    if not one.whole_batch:
        spans = [(images, shape.output_rows) for images in _multiples(1, shape.images)]
        if one.rows < shape.output_rows:
            spans += [(1, one.rows), (1, min(2 * one.rows, shape.output_rows))]
    for images, rows in spans:
        positions = ceil_div(shape.images, images) * ceil_div(shape.output_rows, rows)
        for filters in _multiples(one.filters, shape.filters):
            for channels in _multiples(one.channels, shape.channels):
                several = (positions > 1, filters < shape.filters, channels < shape.channels)
                inner = [loop for loop, many in zip(_LOOPS, several, strict=True) if many]
                for innermost in inner or _LOOPS[:1]:
                    yield Tile(images, rows, filters, channels, innermost, True)
                    yield Tile(images, rows, filters, channels, innermost, False)


def _multiples(one: int, whole: int) -> Iterator[int]:
    size = one
    while size < whole:
        yield size
        size *= 2 if size < 8 * one else 4
    yield whole


def move(shape: LoopShape, one: Pass, tile: Tile, reads: int, least_loads: int) -> Moved:
    """What a pass in a tile moves, and what the buffer must hold for it.

    `reads` and `least_loads` are `input_reads` and `weight_loads` of the pass.
    """
    position_trips = ceil_div(shape.images, tile.images) * ceil_div(shape.output_rows, tile.rows)
    filter_trips = ceil_div(shape.filters, tile.filters)
    channel_trips = ceil_div(shape.channels, tile.channels)
    weights_stay = tile.innermost == "positions" and position_trips > 1
    inputs_stay = tile.innermost == "filters" and filter_trips > 1
    sums_stay = tile.innermost == "channels" and channel_trips > 1

    high = ceil_div(shape.output_rows, tile.rows) * shape.rows_read(tile.rows)
    wide = shape.columns_read(shape.output_columns)
    fetched = shape.images * shape.channels * high * wide * (1 if inputs_stay else filter_trips)
    weights = shape.weights * (1 if weights_stay else position_trips)
    spilled = 1 if sums_stay else channel_trips
    rounds = _rounds(tile.channels, one) * (channel_trips if sums_stay else 1)
    loads = least_loads
    if one.holds == "weight":
        alone = tile.filters <= one.filters and tile.channels <= one.channels and one.folds == 1
        loads *= 1 if weights_stay and alone else position_trips
    reused_input, reused_weight = reads > fetched, loads > weights
    held = 0
    if reused_input:
        held += _held_inputs(shape, one, tile, stays=inputs_stay)
    if reused_weight:
        held += _held_weights(shape, one, tile, stays=weights_stay)
    if rounds > 1:
        held += _held_sums(shape, one, tile, stays=sums_stay)
    return Moved(
        dram_input=fetched if reused_input else reads,
        dram_weight=weights if reused_weight else loads,
        dram_sum=(2 * spilled - 1) * shape.outputs,
        buffer_input=reads if reused_input else 0,
        buffer_weight=loads if reused_weight else 0,
        buffer_sum=2 * spilled * (rounds - 1) * shape.outputs,
        array_weight=loads * one.weight_fan if one.weight_fan > 1 else 0,
        held_words=held,
    )


def _held_inputs(shape: LoopShape, one: Pass, tile: Tile, *, stays: bool) -> int:
    plane = tile.images * shape.rows_read(tile.rows) * shape.input_columns
    strip = shape.rows_read(one.rows) * shape.input_columns
    if stays:
        return plane * tile.channels
    if one.holds == "weight":
        if tile.filters <= one.filters:
            return strip * one.channels
        return plane * (tile.channels if tile.filters_outside else one.channels)
    if tile.filters <= one.filters or not tile.filters_outside:
        return strip * tile.channels
    return plane * tile.channels


def _held_weights(shape: LoopShape, one: Pass, tile: Tile, *, stays: bool) -> int:
    if stays or one.holds == "weight" or not tile.filters_outside:
        return tile.filters * tile.channels * shape.taps
    return one.filters * tile.channels * shape.taps


def _held_sums(shape: LoopShape, one: Pass, tile: Tile, *, stays: bool) -> int:
    plane = tile.images * tile.rows * shape.output_columns
    if stays:
        return plane * tile.filters
    if one.holds == "weight":
        return plane * (one.filters if tile.filters_outside else tile.filters)
    return one.filters
