"""Layers as loops: what a convolution or a fully connected layer multiplies, from a graph.

A fully connected layer is a convolution whose kernel is as large as its input. Shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from trainload.estimate.dataflow.accelerator import load_published
from trainload.workload.graph.layers import Layer, LayerGraph

LayerType = Literal["convolution", "fully connected"]
_PASSES_ON = ("dropout", "relu", "flatten")
"""Kinds between a map and the layer that reads it flat, which keep its values in order."""


@dataclass(frozen=True, kw_only=True)
class LoopShape:
    """The loops of one group of a layer; equal shapes cost the same."""

    images: int
    filters: int
    channels: int
    """That one filter reads."""
    kernel_rows: int
    kernel_columns: int
    stride: int
    input_rows: int
    input_columns: int
    output_rows: int
    output_columns: int
    groups: int = 1

    @property
    def macs(self) -> int:
        """Multiply-adds of one group."""
        return self.outputs * self.channels * self.taps

    @property
    def taps(self) -> int:
        """Weights of one channel of one filter."""
        return self.kernel_rows * self.kernel_columns

    @property
    def weights(self) -> int:
        """Of one group."""
        return self.filters * self.channels * self.taps

    @property
    def inputs(self) -> int:
        """Values that one group reads; a stride beyond the kernel leaves some out."""
        plane = self.rows_read(self.output_rows) * self.columns_read(self.output_columns)
        return self.images * self.channels * plane

    @property
    def outputs(self) -> int:
        """Values that one group makes."""
        return self.images * self.filters * self.output_rows * self.output_columns

    def rows_read(self, rows: int) -> int:
        """Input rows that so many output rows need."""
        step = min(self.stride, self.kernel_rows)
        return min(self.input_rows, (rows - 1) * step + self.kernel_rows)

    def columns_read(self, columns: int) -> int:
        """Input columns that so many output columns need."""
        step = min(self.stride, self.kernel_columns)
        return min(self.input_columns, (columns - 1) * step + self.kernel_columns)


@dataclass(frozen=True, kw_only=True)
class NamedShape:
    """A layer of a network as loops."""

    name: str
    type: LayerType
    shape: LoopShape


def graph_shapes(graph: LayerGraph, batch_size: int) -> Iterator[NamedShape]:
    """Every conv2d and linear layer of a graph; other kinds move data too, and are left out."""
    layers = {layer.name: layer for layer in graph.layers}
    for layer in graph.layers:
        if layer.kind == "conv2d":
            yield NamedShape(
                name=layer.name, type="convolution", shape=_convolution(layer, layers, batch_size)
            )
        elif layer.kind == "linear":
            yield NamedShape(
                name=layer.name, type="fully connected", shape=_linear(layer, layers, batch_size)
            )


def published_shapes(batch_size: int) -> Iterator[NamedShape]:
    """The layers of the published comparison."""
    for row in load_published()["layers"]:
        shape = LoopShape(
            images=batch_size,
            filters=row["filters"],
            channels=row["channels"],
            kernel_rows=row["kernel"],
            kernel_columns=row["kernel"],
            stride=row["stride"],
            input_rows=row["input"],
            input_columns=row["input"],
            output_rows=row["output"],
            output_columns=row["output"],
        )
        kind: LayerType = "fully connected" if row["output"] == 1 else "convolution"
        yield NamedShape(name=row["name"], type=kind, shape=shape)


def _convolution(layer: Layer, layers: dict[str, Layer], batch_size: int) -> LoopShape:
    channels, rows, columns = layers[layer.inputs[0]].output_shape
    filters, out_rows, out_columns = layer.output_shape
    groups = layer.attributes["groups"]
    return LoopShape(
        images=batch_size,
        filters=filters // groups,
        channels=channels // groups,
        kernel_rows=layer.attributes["kernel"][0],
        kernel_columns=layer.attributes["kernel"][1],
        # Where strides differ the larger one leaves less overlap: no reuse is made up.
        stride=max(layer.attributes["stride"]),
        input_rows=rows,
        input_columns=columns,
        output_rows=out_rows,
        output_columns=out_columns,
        groups=groups,
    )


def _linear(layer: Layer, layers: dict[str, Layer], batch_size: int) -> LoopShape:
    channels, rows, columns = _map_before(layer, layers)
    *positions, filters = layer.output_shape
    images = batch_size
    for count in positions:  # a sequence: the same weights at every position
        images *= count
    return LoopShape(
        images=images,
        filters=filters,
        channels=channels,
        kernel_rows=rows,
        kernel_columns=columns,
        stride=1,
        input_rows=rows,
        input_columns=columns,
        output_rows=1,
        output_columns=1,
    )


def _map_before(layer: Layer, layers: dict[str, Layer]) -> tuple[int, int, int]:
    """Channels, rows and columns of what a linear layer reads; a vector is channels of one."""
    before = layers[layer.inputs[0]]
    while before.kind in _PASSES_ON and len(before.output_shape) == 1 and before.inputs:
        before = layers[before.inputs[0]]
    if len(before.output_shape) == 3:
        channels, rows, columns = before.output_shape
        return channels, rows, columns
    return layers[layer.inputs[0]].output_shape[-1], 1, 1
