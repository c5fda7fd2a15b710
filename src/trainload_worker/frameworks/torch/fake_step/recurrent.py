"""cuDNN's recurrent layers on fake tensors: reserve, flat buffers of weights, casts of autocast.

Follows torch's RNN.cpp and AutocastRNN.cpp; sizes that cuDNN keeps to itself were measured.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor, form_of, make

_KEPT = {0: 1, 1: 1, 2: 5, 3: 6}
"""Values that cuDNN keeps of each unit and step, by its kinds: with relu, with tanh, LSTM, GRU."""
_FIXED_BYTES = 256
_LSTM = 2
_STATE_BYTES = 132 * 2048 * 24
"""Random states of dropout for every thread of an H200; measured, and kept for good."""
_dropout_state: list[Any] = []
_BATCH_FIRST = 14
"""Index of that option among the arguments of the backward operation."""


def reserve_bytes(
    *,
    mode: int,
    places: int,
    hidden: int,
    layers: int,
    directions: int,
    item_bytes: int,
    dropout: float,
) -> int:
    """Bytes that cuDNN keeps for the backward pass; `places` are steps times rows.

    Gates and states of every layer and the output between two layers; for dropout, a bit for each
    value a layer hands on. Measured on an H200 with cuDNN 9.19: to the byte in 120 of 120 trials.
    """
    each = places * hidden * directions
    found = _FIXED_BYTES + each * (_KEPT[mode] * layers + layers - 1) * item_bytes
    if dropout:
        found += (layers - 1) * -(-each * directions // 512) * 64
    return found


def run_recurrent(
    mode: int,
    source: Any,
    hx: Any,
    cx: Any,
    weights: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    sizes: Sequence[int] = (),
) -> Any:
    """Output and both last states; `sizes` are the rows of each step of packed sequences.

    All weights lie in one buffer unless somebody moved them.
    """
    weights = list(weights)
    each = (4 if has_biases else 2) + (1 if _is_projected(mode, weights, has_biases) else 0)
    shared = len({id(w.store) for w in weights if isinstance(w, FakeTensor)}) == 1
    whole = weights[0].detach() if shared else None
    if train and dropout and not _dropout_state:
        _dropout_state.append(torch.empty(_STATE_BYTES, dtype=torch.uint8, device=source.device))
    if torch.is_autocast_enabled("cuda") and source.dtype is not torch.float64:
        dtype = torch.get_autocast_dtype("cuda")
        weights = list(_Flattened.apply(dtype, *weights))
        whole = weights[0].detach()
        hx, cx = hx.to(dtype), None if cx is None else cx.to(dtype)
        source = source.to(dtype)
    hidden = hx.shape[2] if cx is None else cx.shape[2]
    projected = hx.shape[2] if hx.shape[2] != hidden else 0
    with torch.autocast("cuda", enabled=False):
        out = torch._cudnn_rnn(
            source, weights, each, whole, hx, cx, mode, hidden, projected, layers, batch_first,
            dropout, train, bidirectional, sizes, None,
        )  # fmt: skip
    return out[0], out[1], out[2]


def _is_projected(mode: int, weights: Any, has_biases: bool) -> bool:
    return (
        mode == _LSTM
        and len(weights) % (5 if has_biases else 3) == 0
        and len(weights) % (4 if has_biases else 2) != 0
    )


class _Flattened(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """Autocast's copy of all weights into one buffer of its type."""

    @staticmethod
    def forward(ctx: Any, dtype: Any, *weights: Any) -> Any:
        """The weights as views of a new buffer."""
        ctx.dtypes = [weight.dtype for weight in weights]
        count = sum(weight.numel() for weight in weights)
        buffer = torch.empty(count, dtype=dtype, device=weights[0].device)
        return tuple(_cut(buffer.store, [w.shape for w in weights], dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """A copy of each gradient in the weight's own type, the last one first."""
        found: list[Any] = [None] * len(gradients)
        for at in reversed(range(len(gradients))):
            if ctx.needs_input_grad[at + 1] and gradients[at] is not None:
                found[at] = gradients[at].to(ctx.dtypes[at])
        return (None, *found)


def _cut(store: Any, shapes: Any, dtype: Any) -> list[Any]:
    """Tensors of those shapes one after the other on a storage."""
    cut, offset = [], 0
    for shape in shapes:
        form = form_of(shape, None, dtype, offset, True)
        cut.append(make(form, store))
        offset += cut[-1].numel()
    return cut


def answer_backward(dispatch: Any, func: Any, args: Any, _kwargs: Any) -> Any:
    """Gradients of input and states as far as they are asked for; those of weights in one buffer.

    Takes the dispatch mode that asks; notes the operation in its log.
    """
    source, weights, hx, cx, mask = args[0], args[1], args[4], args[5], args[-1]
    if not isinstance(source, FakeTensor):
        return NotImplemented
    made: list[Any] = []

    def like(tensor: Any, wanted: bool) -> Any:
        if not wanted or tensor is None:
            return None
        form = form_of(tensor.shape, None, tensor.dtype, 0, True)
        made.append(make(form, dispatch.storage(form)))
        return made[-1]

    parts: list[Any] = []
    found: list[Any] = []

    def create() -> list[Any]:
        found.extend([like(source, mask[0]), like(hx, mask[1]), like(cx, mask[2])])
        if found[0] is not None and args[_BATCH_FIRST]:
            # cuDNN's own gradient has the steps outermost.
            rows, _, width = source.shape
            form = form_of(source.shape, (width, rows * width, 1), source.dtype, 0, True)
            found[0] = made[0] = make(form, found[0].store)
        if mask[3]:
            count = sum(weight.numel() for weight in weights)
            form = form_of((count,), None, weights[0].dtype, 0, True)
            shapes = [weight.shape for weight in weights]
            parts.extend(_cut(dispatch.storage(form), shapes, weights[0].dtype))
        return made + parts

    dispatch.note_created(func, args, create)
    return (*found, parts)
