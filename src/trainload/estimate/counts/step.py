"""Counts of one training step, layer by layer: parameters, FLOPs, bytes kept and bytes moved.

From a graph, a batch size, a precision and an optimizer; no framework, no device, no file.
Forward, loss and backward as in torch with gradients set to none; one value of a layer that several
others keep is counted once, at the layer that made it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainload.estimate.counts.kinds import (
    FLOAT32_BYTES,
    HALF_BYTES,
    INT64_BYTES,
    KindRule,
    backward_flop,
    buffer_bytes,
    rule_of,
)
from trainload.estimate.counts.optimizers import state_bytes, update_moved_bytes
from trainload.workload.graph.layers import Layer, LayerGraph
from trainload.workload.spec import Optimizer, Precision
from trainload_worker.protocol.training import HALVES

LOSS = "(loss)"
"""The name of the row that stands for the loss; no layer of a graph can have it."""


@dataclass(frozen=True, kw_only=True)
class LayerEstimate:
    """What one layer costs in a step of the whole batch."""

    name: str
    kind: str
    output_shape: tuple[int, ...]
    parameters: int
    forward_flop: int
    backward_flop: int
    kept_bytes: int
    """Activations that stay from the forward pass until the backward pass."""
    weight_copy_bytes: int
    """Half-precision copies of weights that autocast makes and the backward pass needs."""
    forward_moved_bytes: int
    backward_moved_bytes: int
    update_moved_bytes: int
    weight_bytes: int
    buffer_bytes: int
    gradient_bytes: int
    optimizer_bytes: int

    @property
    def flop(self) -> int:
        """Both passes."""
        return self.forward_flop + self.backward_flop

    @property
    def moved_bytes(self) -> int:
        """Both passes and the update."""
        return self.forward_moved_bytes + self.backward_moved_bytes + self.update_moved_bytes

    @property
    def intensity_flop_per_byte(self) -> float | None:
        """FLOPs for each byte moved; None where nothing moves."""
        return self.flop / self.moved_bytes if self.moved_bytes else None


@dataclass(frozen=True, kw_only=True)
class StepEstimate:
    """What one training step costs: a row for each layer, the loss last, and their sums."""

    model: str
    batch_size: int
    precision: Precision
    optimizer: Optimizer
    layers: tuple[LayerEstimate, ...]
    fullest_bytes: int
    """Weights, buffers, optimizer state, and the most of kept activations and gradients that exist
    at one moment of the backward pass: gradients come as activations go."""

    def total(self, quantity: str) -> int:
        """The sum of one of the rows' counts, by its name."""
        return sum(getattr(layer, quantity) for layer in self.layers)

    @property
    def intensity_flop_per_byte(self) -> float:
        """FLOPs of the step for each byte it moves."""
        return self.total("flop") / self.total("moved_bytes")


@dataclass(frozen=True, kw_only=True)
class _Value:
    """A layer's output in a step."""

    layer: Layer
    number: int
    """Position of the layer in the graph."""
    storage: str
    """The layer in whose memory it lies."""
    value_bytes: int
    needs_gradient: bool

    def bytes(self, batch: int) -> int:
        return batch * math.prod(self.layer.output_shape) * self.value_bytes


@dataclass(kw_only=True)
class _Holding:
    """Who keeps what for the backward pass, as it builds up."""

    keeper: dict[str, int] = field(default_factory=dict)
    """Storage -> the first layer that keeps it, whose backward pass comes last."""
    extra_bytes: dict[str, int] = field(default_factory=dict)
    """Layer -> what it keeps for itself alone."""

    def keep(self, storage: str, number: int) -> None:
        self.keeper[storage] = min(number, self.keeper.get(storage, number))


def estimate_step(
    graph: LayerGraph,
    *,
    batch_size: int,
    precision: Precision = "float32",
    optimizer: Optimizer | None = None,
) -> StepEstimate:
    """Counts of one training step with a cross-entropy loss on the graph's output."""
    optimizer = optimizer if optimizer is not None else Optimizer()
    values: dict[str, _Value] = {}
    holding = _Holding()
    moved: dict[str, tuple[int, int]] = {}
    for number, layer in enumerate(graph.layers):
        rule = rule_of(layer)
        sources = [values[name] for name in layer.inputs]
        value = _output_value(layer, number, rule, sources, precision)
        values[layer.name] = value
        if layer.kind == "input":
            holding.keep(layer.name, -1)  # the training loop holds the batch all along
        extra_bytes = _hold(holding, value, rule, sources, batch_size, precision)
        moved[layer.name] = _moved_bytes(value, rule, sources, batch_size, precision, extra_bytes)
    rows = [
        _layer_row(values, layer, holding, moved[layer.name], batch_size, precision, optimizer)
        for layer in graph.layers
    ]
    rows.append(_loss_row(values[graph.output], batch_size))
    return StepEstimate(
        model=graph.name,
        batch_size=batch_size,
        precision=precision,
        optimizer=optimizer,
        layers=tuple(rows),
        fullest_bytes=_fullest_bytes(rows, holding, values, batch_size),
    )


def _output_value(
    layer: Layer, number: int, rule: KindRule, sources: list[_Value], precision: Precision
) -> _Value:
    if layer.kind == "input":
        value_bytes = INT64_BYTES if layer.attributes["dtype"] == "int64" else FLOAT32_BYTES
    elif rule.cast == "none" and sources:
        value_bytes = max(source.value_bytes for source in sources)
    else:
        value_bytes = _computed_bytes(rule, precision)
    trained = layer.parameters > 0 or any(source.needs_gradient for source in sources)
    return _Value(
        layer=layer,
        number=number,
        storage=sources[0].storage if rule.view else layer.name,
        value_bytes=value_bytes,
        needs_gradient=trained,
    )


def _computed_bytes(rule: KindRule, precision: Precision) -> int:
    return HALF_BYTES if precision in HALVES and rule.cast == "half" else FLOAT32_BYTES


def _is_cast(rule: KindRule, source: _Value, precision: Precision) -> bool:
    """Whether autocast copies this input into another type before the layer reads it."""
    if precision == "float32" or rule.cast == "none" or source.value_bytes == INT64_BYTES:
        return False
    return source.value_bytes != _computed_bytes(rule, precision)


def _hold(
    holding: _Holding,
    value: _Value,
    rule: KindRule,
    sources: list[_Value],
    batch: int,
    precision: Precision,
) -> int:
    """Note what this layer keeps; the bytes of it that are its own."""
    if not value.needs_gradient:
        return 0
    layer = value.layer
    shapes = tuple(source.layer.output_shape for source in sources)
    own = rule.own_bytes(layer, shapes, batch, value.value_bytes)
    extra = own
    if rule.keeps_input:
        for source in sources:
            if _is_cast(rule, source, precision):
                extra += batch * math.prod(source.layer.output_shape) * value.value_bytes
            else:
                holding.keep(source.storage, value.number)
    if rule.keeps_output:
        holding.keep(value.storage, value.number)
    if extra:
        holding.extra_bytes[layer.name] = extra
    return own


def _moved_bytes(
    value: _Value,
    rule: KindRule,
    sources: list[_Value],
    batch: int,
    precision: Precision,
    extra_bytes: int,
) -> tuple[int, int]:
    """Bytes read and written forward and backward, each tensor once a pass, nothing fused."""
    layer = value.layer
    if layer.kind == "input":
        return 0, 0
    half = precision in HALVES and rule.cast == "half"
    output = value.bytes(batch)
    inputs, casts, gradients = 0, 0, 0
    for source in sources:
        read = source.bytes(batch)
        if _is_cast(rule, source, precision):
            copy = batch * math.prod(source.layer.output_shape) * value.value_bytes
            casts += read + copy
            read = copy
        inputs += read
        if source.needs_gradient and not rule.passes_gradient:
            gradients += read
    weights = layer.parameters * (HALF_BYTES if half else FLOAT32_BYTES)
    table_rows = output if layer.kind == "embedding" else weights
    weight_casts = layer.parameters * (FLOAT32_BYTES + HALF_BYTES) if half else 0
    forward = 0 if rule.view else inputs + table_rows + output + extra_bytes + casts + weight_casts
    if not value.needs_gradient:
        return forward, 0
    kept = (inputs if rule.keeps_input else 0) + (output if rule.keeps_output else 0) + extra_bytes
    backward = kept + gradients
    if layer.parameters or not rule.passes_gradient:
        backward += output  # the gradient that comes in
    if layer.parameters:
        backward += weights + weight_casts  # written as computed, then as float32
        backward += weights if gradients and layer.kind != "embedding" else 0
    return forward, backward + (casts if gradients else 0)


def _layer_row(
    values: Mapping[str, _Value],
    layer: Layer,
    holding: _Holding,
    moved: tuple[int, int],
    batch: int,
    precision: Precision,
    optimizer: Optimizer,
) -> LayerEstimate:
    value = values[layer.name]
    sources = [values[name] for name in layer.inputs]
    shapes = tuple(source.layer.output_shape for source in sources)
    needed = any(source.needs_gradient for source in sources)
    backward = backward_flop(layer, shapes, needed) if value.needs_gradient else 0
    kept = value.bytes(batch) if layer.name in holding.keeper else 0
    half = precision in HALVES and rule_of(layer).cast == "half"
    # The product with the weights gives the input's gradient; without one, linear lets them go.
    copied = half and (needed or layer.kind in ("conv2d", "lstm", "self_attention"))
    matrices = [shape for shape in layer.parameter_shapes.values() if len(shape) > 1]
    return LayerEstimate(
        name=layer.name,
        kind=layer.kind,
        output_shape=layer.output_shape,
        parameters=layer.parameters,
        forward_flop=batch * layer.flop_forward,
        backward_flop=batch * backward,
        kept_bytes=kept + holding.extra_bytes.get(layer.name, 0),
        weight_copy_bytes=HALF_BYTES * sum(map(math.prod, matrices)) if copied else 0,
        forward_moved_bytes=moved[0],
        backward_moved_bytes=moved[1],
        update_moved_bytes=update_moved_bytes(optimizer, layer.parameters),
        weight_bytes=FLOAT32_BYTES * layer.parameters,
        buffer_bytes=buffer_bytes(layer),
        gradient_bytes=FLOAT32_BYTES * layer.parameters,
        optimizer_bytes=state_bytes(optimizer, layer.parameters),
    )


def _loss_row(output: _Value, batch: int) -> LayerEstimate:
    """Cross-entropy: the logarithms of the softmax are kept in float32, the labels as int64."""
    shape = output.layer.output_shape
    logits = output.bytes(batch)
    logarithms = batch * math.prod(shape) * FLOAT32_BYTES
    labels = batch * math.prod(shape[:-1]) * INT64_BYTES
    cast = logits if output.value_bytes == HALF_BYTES else 0
    return LayerEstimate(
        name=LOSS,
        kind="cross_entropy",
        output_shape=(),
        parameters=0,
        forward_flop=0,
        backward_flop=0,
        kept_bytes=logarithms + labels,
        weight_copy_bytes=0,
        forward_moved_bytes=logits + logarithms + labels + 3 * cast,
        backward_moved_bytes=logarithms + labels + logits + cast,
        update_moved_bytes=0,
        weight_bytes=0,
        buffer_bytes=0,
        gradient_bytes=0,
        optimizer_bytes=0,
    )


def _fullest_bytes(
    rows: list[LayerEstimate], holding: _Holding, values: Mapping[str, _Value], batch: int
) -> int:
    """What must exist at once at the fullest moment of the backward pass."""
    lasting = sum(row.weight_bytes + row.buffer_bytes + row.optimizer_bytes for row in rows)
    released = [0] * (len(rows) + 1)
    for storage, number in holding.keeper.items():
        released[number] += values[storage].bytes(batch)  # -1, the last: never
    kept = sum(row.kept_bytes + row.weight_copy_bytes for row in rows)
    gradients, fullest = 0, kept
    for number in range(len(rows) - 1, -1, -1):
        row = rows[number]
        gradients += row.gradient_bytes
        fullest = max(fullest, kept + gradients)
        own = row.weight_copy_bytes + holding.extra_bytes.get(row.name, 0)
        kept -= released[number] + (row.kept_bytes if row.name == LOSS else own)
    return lasting + fullest
