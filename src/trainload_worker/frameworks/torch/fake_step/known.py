"""Numbers that are known though tensors have none: those that the program itself gave.

An attention mask of ones, the lengths of sequences, boxes, positions: programs branch on them and
make sizes of them. They stay with the storage, are worked out again by operations on known numbers
alone, and are forgotten where anything unknown is written over them. Weights are never known.
"""

from __future__ import annotations

from typing import Any

import torch

from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor, seen

MOST_BYTES = 4 << 20
"""Of a storage whose numbers are kept; larger ones are data, and nobody branches on them."""
_CPU = torch.device("cpu")
_WHOLE = ("copy_", "fill_", "zero_")


def keep(target: Any, numbers: Any) -> None:
    """Keeps the numbers of a tensor that was just made, in the form that it has."""
    if not isinstance(target, FakeTensor) or not isinstance(numbers, torch.Tensor):
        return
    form = target.form
    if form.bytes > MOST_BYTES or tuple(numbers.shape) != form.shape or form.offset:
        return
    if numbers.dtype is not form.dtype or numbers.layout is not torch.strided:
        return
    laid = torch.empty_strided(form.shape, form.strides, dtype=form.dtype)
    target.store.known = laid.copy_(numbers)


def all_known(fakes: list[FakeTensor]) -> bool:
    """Whether the numbers of all of them are known."""
    for fake in fakes:  # noqa: SIM110 - asked at every operation
        if fake.store.known is None:
            return False
    return True


def work_out(func: Any, args: Any, kwargs: Any) -> Any:
    """What an operation gives for known numbers, on the host; None where it cannot be said."""
    try:
        with torch.no_grad():
            return func(*_real(args), **{name: _one(value) for name, value in kwargs.items()})
    except Exception:  # noqa: BLE001 - whatever the host lacks is not known
        return None


def keep_all(results: Any, numbers: Any) -> None:
    """Keeps the numbers of the results of one operation."""
    if isinstance(results, (list, tuple)) and isinstance(numbers, (list, tuple)):
        for result, one in zip(results, numbers):
            keep_all(result, one)
        return
    keep(results, numbers)


def begin_whole(name: str, target: Any, fakes: list[FakeTensor]) -> None:
    """Lays a place for the numbers of a new tensor that known ones are written over as a whole."""
    if name not in _WHOLE or not isinstance(target, FakeTensor) or target.store.known is not None:
        return
    form = target.form
    whole = form.bytes == target.store.bytes == target.numel() * form.dtype.itemsize
    if whole and form.bytes <= MOST_BYTES and all_known([f for f in fakes if f is not target]):
        target.store.known = torch.empty_strided(form.shape, form.strides, dtype=form.dtype)


def forget_written(written: Any, args: Any, kwargs: Any) -> None:
    """Forgets the numbers of what an operation writes."""
    for place, name in written:
        target = kwargs.get(name, args[place] if place < len(args) else None)
        for one in target if isinstance(target, (list, tuple)) else (target,):
            if isinstance(one, FakeTensor):
                one.store.known = None


def _real(values: Any) -> Any:
    return [_one(value) for value in values]


def _one(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return seen(value)
    if isinstance(value, (list, tuple)):
        return _real(value)
    return _CPU if isinstance(value, torch.device) else value
