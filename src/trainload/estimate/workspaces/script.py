"""What happens inside one operation, in order: memory taken, results made, memory given back.

Plain values; knows no operation and no device.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, Protocol

ITEM_BYTES: Mapping[str, int] = {
    "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "bfloat16": 2,
    "float16": 2, "int16": 2, "uint8": 1, "int8": 1, "bool": 1,
}  # fmt: skip


class Tensor(Protocol):
    """An operand or result; strides of None mean contiguous."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...


class Operation(Protocol):
    """An operation as an op trace has it."""

    @property
    def name(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def inputs(self) -> tuple[Tensor, ...]: ...
    @property
    def outputs(self) -> tuple[Tensor, ...]: ...
    @property
    def attributes(self) -> tuple[Any, ...]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One act: `take` memory under a number, `give` it back, or make the `result` of a number."""

    kind: Literal["take", "give", "result"]
    number: int
    size_bytes: int = 0
    """Of what is taken; a result knows its own size."""


@dataclass(frozen=True, kw_only=True)
class Temporaries:
    """What an operation allocates beside its results, and what it leaves behind for good."""

    steps: tuple[Step, ...] = ()
    """In order; results that are not named come first. Whatever is taken is given back."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """By name: bytes taken at the first operation that needs them and never given back."""
    kept_last: bool = False
    """Whether those are taken after the results, not before."""

    @property
    def before(self) -> tuple[int, ...]:
        """Sizes taken before the first result."""
        sizes: list[int] = []
        for step in self.steps:
            if step.kind == "result":
                return tuple(sizes)
            if step.kind == "take":
                sizes.append(step.size_bytes)
        return ()

    @property
    def after(self) -> tuple[int, ...]:
        """Sizes held together at the fullest moment, without those of `before`.

        For readers that make all results at once: right in what is held, not in the order.
        """
        first = {step.number for step in self.steps[: len(self.before)] if self.before}
        held: dict[int, int] = {}
        fullest: tuple[int, ...] = ()
        for step in self.steps:
            if step.kind == "take" and step.number not in first:
                held[step.number] = step.size_bytes
                if sum(held.values()) > sum(fullest):
                    fullest = tuple(held.values())
            elif step.kind == "give":
                held.pop(step.number, None)
        return fullest

    @property
    def total_bytes(self) -> int:
        """All that is taken, whether or not at the same time."""
        return sum(step.size_bytes for step in self.steps)


class Script:
    """Writes down the steps of one operation."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._sizes: list[int] = []
        self._held: list[int] = []

    def take(self, size_bytes: int) -> int:
        """Takes memory; the number to give it back by. Nothing happens for no bytes."""
        number = len(self._sizes)
        self._sizes.append(size_bytes)
        if size_bytes > 0:
            self._steps.append(Step(kind="take", number=number, size_bytes=size_bytes))
            self._held.append(number)
        return number

    def give(self, *numbers: int) -> None:
        """Gives back."""
        for number in numbers:
            if number in self._held:
                self._held.remove(number)
                self._steps.append(Step(kind="give", number=number))

    def brief(self, *sizes: int) -> None:
        """Takes all, then gives back all."""
        self.give(*reversed([self.take(size) for size in sizes]))

    def results(self, *numbers: int) -> None:
        """Makes results."""
        self._steps += [Step(kind="result", number=number) for number in numbers]

    def finish(self) -> tuple[Step, ...]:
        """All steps; what is still held is given back."""
        self.give(*reversed(self._held))
        return tuple(self._steps)


def numel(tensor: Tensor) -> int:
    """Elements."""
    return prod(tensor.shape)


def size_bytes(tensor: Tensor) -> int:
    """Bytes of its elements."""
    return numel(tensor) * ITEM_BYTES.get(tensor.dtype, 4)


def is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels are innermost: stride 1 for them and not for the last side."""
    strides, shape = tensor.strides, tensor.shape
    return strides is not None and len(shape) > 2 and strides[1] == 1 and strides[-1] == shape[1]


def is_dense_last(tensor: Tensor) -> bool:
    """Whether it is a whole tensor with the channels innermost, without gaps."""
    if not is_channels_last(tensor) or tensor.strides is None:
        return False
    expected = tensor.shape[1]
    for side, stride in zip(reversed(tensor.shape[2:]), reversed(tensor.strides[2:]), strict=True):
        if stride != expected:
            return False
        expected *= side
    return tensor.shape[0] == 1 or tensor.strides[0] == expected
