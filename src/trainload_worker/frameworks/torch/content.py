"""What a step of a program trained on: its examples, tokens and loss; never waits for a device.

Told of the calls of models and of backward passes; where those are seen is none of its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterator, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trainload_worker.frameworks.torch.clock import StepLoss, add_loss

_INPUTS = ("input_ids", "inputs_embeds", "pixel_values", "input_values", "input_features")
"""Names under which Hugging Face models take what the others only accompany."""
_TOKENS = (torch.int64, torch.int32)
_DEEPEST = 3


Content = Tuple[Optional[int], Optional[int], Union[float, StepLoss, None]]
"""Examples, tokens and loss of one step; None where nothing told it. A plain tuple: one is made in
every step."""
NOTHING = (0, None)
_Called = Tuple[int, Optional[int]]
"""Examples and tokens of a call."""


class StepContent:
    """Gathers over the forward and backward passes of one step.

    Called in each of them, when the processor's caches are full of other things: what counts is how
    many functions are called, not how long each of them is. So callers compare a first argument
    with `shape` and `dtype` themselves and take `like` for `called` where both are the same.
    """

    __slots__ = ("called", "dtype", "like", "loss", "repeats", "shape", "steps", "summed")

    def __init__(self) -> None:
        self.called: _Called = NOTHING
        """Since the last backward pass."""
        self.summed: _Called | None = None
        self.loss: float | StepLoss | None = None
        self.repeats = False
        """Whether the optimizer repeats the backward pass for one step: only the first counts."""
        self.steps = 0
        """That were taken so far."""
        self.shape: Any = None
        self.dtype: Any = None
        self.like: _Called = NOTHING
        """What a call means whose first argument is a tensor of that shape and type."""

    def note_call(self, args: Any, kwargs: Any) -> None:
        """A model was called to be trained.

        Of several calls before one backward pass the largest counts: an encoder and its decoder, or
        a cell called for each token, see the same examples.
        """
        # What a compiler runs a model with are no examples, and asking for their shape binds it.
        if is_compiling():
            return
        called = read_batch(args, kwargs)
        if called[0] > self.called[0]:
            self.called = called
        if args and type(args[0]) is Tensor and args[0].dim():
            self.shape, self.dtype, self.like = args[0].shape, args[0].dtype, called

    def forget_calls(self) -> None:
        """What was called so far was not to be trained on."""
        self.called = NOTHING

    def end_calls(self) -> None:
        """A backward pass begins: what was called so far is what it trains on."""
        if self.summed is None:
            self.summed = self.called
        elif not self.repeats:
            self.summed = _added(self.summed, self.called)
        self.called = NOTHING

    def add_loss(self, scalar: Any) -> None:
        """One more backward pass of the step begins at this number."""
        if not self.repeats:
            assert self.loss is not None
            self.loss = add_loss(self.loss, scalar)

    def take(self) -> Content:
        """What the step had; the next one begins empty.

        The loss is the sum over its backward passes, as gradients add up.
        """
        self.steps += 1
        summed, loss = self.summed, self.loss
        if summed is None:
            if self.called is NOTHING:
                self.loss = None
                return None, None, loss
            summed = self.called  # trained without a backward pass that was seen
        self.called, self.summed, self.loss = NOTHING, None, None
        return summed[0], summed[1], loss


def _added(summed: _Called, called: _Called) -> _Called:
    """The sum of two passes; tokens only where both tell them."""
    known = summed[1] is not None and called[1] is not None
    return summed[0] + called[0], summed[1] + called[1] if known else None  # type: ignore[operator]


def read_batch(args: Any, kwargs: Any) -> _Called:
    """Examples and tokens of a call: the first dimension of its first tensor; 0 without one.

    Tokens are whole numbers of two dimensions or three, the second being the length.
    """
    tensor = args[0] if args else None
    if not isinstance(tensor, Tensor) or not tensor.dim():
        both = (kwargs, args) if _has_input(kwargs) else (args, kwargs)
        tensor = next((found for found in _tensors(both, 0) if found.dim()), None)
        if tensor is None:
            return NOTHING
    shape = tensor.shape
    if len(shape) in (2, 3) and tensor.dtype in _TOKENS:
        return int(shape[0]), int(shape[0] * shape[1])
    return int(shape[0]), None


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield value
    elif depth > _DEEPEST or isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return
    elif isinstance(value, Mapping):
        named = [value[name] for name in _INPUTS if name in value]
        for part in (*named, *value.values()):
            yield from _tensors(part, depth + 1)
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part, depth + 1)


def _has_input(kwargs: Mapping[str, Any]) -> bool:
    return any(name in kwargs for name in _INPUTS)
