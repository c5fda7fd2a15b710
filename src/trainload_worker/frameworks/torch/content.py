"""What a step of a program trained on: its examples, tokens and loss; never waits for a device.

Told of the calls of models and of backward passes; where those are seen is none of its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterator, NamedTuple

import torch

from trainload_worker.frameworks.torch.clock import StepLoss

_INPUTS = ("input_ids", "inputs_embeds", "pixel_values", "input_values", "input_features")
"""Names under which Hugging Face models take what the others only accompany."""
_TOKENS = (torch.int64, torch.int32)
_DEEPEST = 3


class Content(NamedTuple):
    """Of one step; None where nothing told it."""

    examples: int | None
    tokens: int | None
    loss: StepLoss | None


EMPTY = Content(None, None, None)
_NOTHING = (0, None)


class StepContent:
    """Gathers over the forward and backward passes of one step; called in each, so kept short."""

    __slots__ = ("_called", "_loss", "_repeats", "_summed")

    def __init__(self) -> None:
        self._called: tuple[int, int | None] = _NOTHING
        self._summed: tuple[int, int | None] | None = None
        self._loss: StepLoss | None = None
        self._repeats = False

    def note_call(self, args: Any, kwargs: Any) -> None:
        """A model was called to be trained.

        Of several calls before one backward pass the largest counts: an encoder and its decoder, or
        a cell called for each token, see the same examples.
        """
        called = read_batch(args, kwargs)
        if called[0] > self._called[0]:
            self._called = called

    def forget_calls(self) -> None:
        """What was called so far was not to be trained on."""
        self._called = _NOTHING

    def note_backward(self, loss: Any) -> None:
        """A backward pass begins at this tensor; None where it begins at several."""
        if self._called[0]:
            self._summed = _added(self._summed, self._called)
            self._called = _NOTHING
        if type(loss) is torch.Tensor and loss.numel() == 1 and loss.is_floating_point():
            if self._loss is None:
                self._loss = StepLoss(loss)
            elif not self._repeats:
                self._loss.add(loss)

    def take(self, *, repeats: bool = False) -> Content:
        """What the step had; the next one begins empty.

        The loss is the sum over its backward passes, as gradients add up; from the next step on
        that of the first pass, where the optimizer `repeats` the pass for the same step.
        """
        summed, loss = self._summed, self._loss
        if summed is None and self._called[0]:
            summed = self._called  # trained without a backward pass that was seen
        self._called, self._summed, self._loss = _NOTHING, None, None
        self._repeats = repeats
        return Content(None, None, loss) if summed is None else Content(*summed, loss)


def _added(
    summed: tuple[int, int | None] | None, called: tuple[int, int | None]
) -> tuple[int, int | None]:
    """The sum of two passes; tokens only where both tell them."""
    if summed is None:
        return called
    known = summed[1] is not None and called[1] is not None
    return summed[0] + called[0], summed[1] + called[1] if known else None  # type: ignore[operator]


def read_batch(args: Any, kwargs: Any) -> tuple[int, int | None]:
    """Examples and tokens of a call: the first dimension of its first tensor; 0 without one.

    Tokens are whole numbers of two dimensions or three, the second being the length.
    """
    tensor = args[0] if args else None
    if not isinstance(tensor, torch.Tensor) or not tensor.dim():
        both = (kwargs, args) if _has_input(kwargs) else (args, kwargs)
        tensor = next((found for found in _tensors(both, 0) if found.dim()), None)
        if tensor is None:
            return _NOTHING
    shape = tensor.shape
    if len(shape) in (2, 3) and tensor.dtype in _TOKENS:
        return int(shape[0]), int(shape[0] * shape[1])
    return int(shape[0]), None


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
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
