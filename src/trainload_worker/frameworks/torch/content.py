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


class Batch(NamedTuple):
    """What a model was called with: examples, and tokens where the input is such."""

    examples: int
    tokens: int | None


class Content(NamedTuple):
    """Of one step; None where nothing told it."""

    examples: int | None
    tokens: int | None
    loss: StepLoss | None


EMPTY = Content(None, None, None)


class StepContent:
    """Gathers over the forward and backward passes of one step."""

    def __init__(self) -> None:
        self._called: Batch | None = None
        self._batches: list[Batch] = []
        self._loss: StepLoss | None = None

    def note_call(self, args: Any, kwargs: Any) -> None:
        """A model was called to be trained.

        Of several calls before one backward pass the largest counts: an encoder and its decoder, or
        a cell called for each token, see the same examples.
        """
        batch = read_batch(args, kwargs)
        if batch is not None and (self._called is None or batch.examples > self._called.examples):
            self._called = batch

    def forget_calls(self) -> None:
        """What was called so far was not to be trained on."""
        self._called = None

    def note_backward(self, loss: Any) -> None:
        """A backward pass begins at this tensor; None where it begins at several."""
        if self._called is not None:
            self._batches.append(self._called)
            self._called = None
        if type(loss) is torch.Tensor and loss.numel() == 1 and loss.is_floating_point():
            if self._loss is None:
                self._loss = StepLoss()
            self._loss.add(loss)

    def take(self, *, repeats: bool = False) -> Content:
        """What the step had; the next one begins empty.

        The loss is the sum over its backward passes, as gradients add up; where the optimizer
        `repeats` the pass for the same step, that of the first.
        """
        called, batches, loss = self._called, self._batches, self._loss
        self._called, self._batches, self._loss = None, [], None
        if called is not None and not batches:
            batches = [called]  # trained without a backward pass that was seen
        tokens = [batch.tokens for batch in batches if batch.tokens is not None]
        return Content(
            examples=sum(batch.examples for batch in batches) if batches else None,
            tokens=sum(tokens) if batches and len(tokens) == len(batches) else None,
            loss=loss.first() if loss is not None and repeats else loss,
        )


def read_batch(args: Any, kwargs: Any) -> Batch | None:
    """Examples and tokens of a call: the first dimension of its first tensor.

    Tokens are whole numbers of two dimensions or three, the second being the length.
    """
    for tensor in _tensors((kwargs, args) if _has_input(kwargs) else (args, kwargs), 0):
        if tensor.dim() == 0:
            continue
        shape = tensor.shape
        is_tokens = tensor.dtype in _TOKENS and len(shape) in (2, 3)
        return Batch(int(shape[0]), int(shape[0] * shape[1]) if is_tokens else None)
    return None


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
