"""Temporary memory of cuDNN's recurrent layers: workspace, copies with the steps outermost.

Order and algorithm as in torch's RNN.cpp. The workspace of cuDNN 9.19 was measured on an H200 for
LSTM, GRU and RNN of one and two layers, both directions, dropout, float32 and bfloat16:

    8 MiB for each layer and direction, all weight matrices once, A values for each unit, row and
    step, B for each unit and row, 256 bytes and 8 a row

with the whole numbers A and B below. One of the A is as wide as the input. More than two layers,
projections, and the persistent kernels of GRU and of two-way LSTM are estimated by the same rule.
"""

from dataclasses import dataclass
from typing import Any

from trainload.estimate.workspaces.script import (
    ITEM_BYTES,
    Operation,
    Script,
    Step,
    Tensor,
    size_bytes,
)

_RELU, _TANH, _LSTM, _GRU = range(4)
_GATES = {_RELU: 1, _TANH: 1, _LSTM: 4, _GRU: 3}
_STREAM_BYTES = 8 << 20
_FIXED_BYTES, _ROW_BYTES = 256, 8
_WITHOUT_PERSISTENT = ("sm75", "sm86")
_LEAST_PERSISTENT = 70
_OPTIONS = 10
"""Attributes from cuDNN's kind to the random state of dropout, which come last going forward."""


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """A recurrent layer as cuDNN takes it."""

    mode: int
    batch: int
    steps: int
    width: int
    hidden: int
    layers: int
    directions: int
    dropout: float
    item_bytes: int
    batch_first: bool


def _describe(op: Operation, options: tuple[Any, ...]) -> Recurrent:
    mode, hidden, _, layers, first, dropout, _, both = options[:8]
    shape = op.inputs[0].shape
    if len(shape) == 3:
        steps, batch = (shape[1], shape[0]) if first else shape[:2]
    else:  # packed rows
        sizes = options[8] or [1]
        steps, batch = -(-shape[0] // sizes[0]), sizes[0]
    return Recurrent(
        mode=mode,
        batch=batch,
        steps=steps,
        width=shape[-1],
        hidden=hidden,
        layers=layers,
        directions=2 if both else 1,
        dropout=dropout,
        item_bytes=ITEM_BYTES.get(op.inputs[0].dtype, 4),
        batch_first=bool(first) and len(shape) == 3,
    )


def workspace_bytes(net: Recurrent, device_kind: str, *, backward: bool) -> int:
    """What cuDNN asks for beside its results."""
    persistent = _is_small(net, backward) or _is_persistent(net, device_kind)
    steps, rows = _persistent_factors(net) if persistent else _factors(net)
    values = net.batch * (((steps - 1) * net.hidden + net.width) * net.steps + rows * net.hidden)
    streams = net.layers * net.directions
    return (
        _STREAM_BYTES * streams
        + (values + _weights(net)) * net.item_bytes
        + _FIXED_BYTES
        + _ROW_BYTES * net.batch
    )


def _weights(net: Recurrent) -> int:
    """Values of all weight matrices, without biases."""
    inner = net.directions * net.hidden * (net.layers - 1)
    inputs = net.width + inner + net.hidden * net.layers
    return net.directions * _GATES[net.mode] * net.hidden * inputs


def _factors(net: Recurrent) -> tuple[int, int]:
    """A and B of cuDNN's standard kernels."""
    deep, both = net.layers > 1, net.directions == 2
    if net.mode == _LSTM:
        if both:
            return 15, 24 * net.layers
        return 7 if deep and net.dropout else 6, 9 * net.layers + 2
    if both:
        first = 13 if net.mode == _GRU else 12
        return 14 if deep else first, 14 * net.layers
    if deep and not (net.mode == _GRU and net.dropout):
        # 16 more for 35 steps and 12 for 100: the layers work on parts of the steps in turn.
        return 5, 5 * net.layers + 14
    return 6, 5 * net.layers


def _persistent_factors(net: Recurrent) -> tuple[int, int]:
    """A and B of the kernels that keep the weights in registers."""
    deep, both = net.layers > 1, net.directions == 2
    if net.mode == _LSTM:
        return 31 if both else 22, (24 if both else 8) * net.layers
    steps = 15 + (1 if deep else 0) + (6 + (1 if deep else 0) if both else 0)
    if net.mode == _GRU:
        steps += 5  # between that of an RNN and that of an LSTM, by gates; not measured
    return steps, (14 if both else 6) * net.layers


def _is_small(net: Recurrent, backward: bool) -> bool:
    """`use_rnn_persist_small_h`."""
    if net.mode in (_LSTM, _GRU):
        return net.hidden <= (128 if backward else 192)
    return net.hidden <= (256 if backward else 384)


def _is_persistent(net: Recurrent, device_kind: str) -> bool:
    """`use_persist_common_heuristics` and `use_persist_device_heuristics`, for large GPUs."""
    if net.item_bytes != 2 or net.layers > 1 or net.directions > 1 or net.mode == _GRU:
        return False
    if device_kind in _WITHOUT_PERSISTENT or int(device_kind[2:]) < _LEAST_PERSISTENT:
        return False
    fitting = net.hidden % 128 == 0 and net.width % 128 == 0 and net.hidden <= 1024
    slow = net.mode != _LSTM and net.batch >= 96 and net.hidden >= 896
    return fitting and net.batch % 8 == 0 and net.batch <= 128 and not slow


def _copied(tensor: Tensor, batch_first: bool) -> int:
    """Bytes of a copy with the steps outermost; none where it lies like that."""
    if not batch_first:
        return 0 if tensor.strides is None else size_bytes(tensor)
    rows, steps, width = tensor.shape
    if rows == 1 or steps == 1:
        return 0
    turned = (width, rows * width, 1)
    return 0 if tensor.strides == turned else size_bytes(tensor)


def forward(op: Operation, device_kind: str) -> tuple[Step, ...]:
    """`_cudnn_rnn`: input, output, both states, workspace, reserve."""
    net = _describe(op, op.attributes[-_OPTIONS:])
    script = Script()
    script.take(_copied(op.inputs[0], net.batch_first))
    script.results(0, 1, 2)
    workspace = script.take(workspace_bytes(net, device_kind, backward=False))
    script.results(*range(3, len(op.outputs)))
    script.give(workspace)
    return script.finish()


def backward(op: Operation, device_kind: str) -> tuple[Step, ...]:
    """`_cudnn_rnn_backward`: the gradient of the input, then, from the start, of the weights."""
    net = _describe(op, op.attributes[-_OPTIONS - 1 : -1])
    wanted = op.attributes[-1]
    states = 2 if net.mode == _LSTM else 1
    after = op.inputs[1 + op.attributes[0] * net.layers * net.directions :]
    state, output = after[1], after[1 + states]
    gradients = after[2 + states : -1]
    state_bytes = size_bytes(state)
    workspace = workspace_bytes(net, device_kind, backward=True)
    script = Script()
    has_output = bool(gradients) and gradients[0].shape == output.shape
    for _ in range(states - len(gradients) + has_output):
        script.take(state_bytes)  # zeros for a state that nobody used
    copies = [script.take(_copied(op.inputs[0], net.batch_first))]
    if has_output:
        copies.append(script.take(_copied(gradients[0], net.batch_first)))
    else:
        copies.append(script.take(size_bytes(output)))
    number = 0
    for asked, size in zip(
        wanted, (size_bytes(op.inputs[0]), *[state_bytes] * states), strict=False
    ):
        if asked:
            script.results(number)
            number += 1
        else:
            script.take(size)
    script.brief(workspace)
    script.give(*reversed(copies))
    if wanted[3]:
        copy = script.take(_copied(op.inputs[0], net.batch_first))
        script.results(*range(number, len(op.outputs)))
        script.brief(workspace)
        script.give(copy)
    return script.finish()
