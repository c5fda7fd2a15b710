"""Tells which of a program's optimizers ends its steps, and on which device that is.

Holds no optimizer alive: a program may have done with one and free its memory.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

MOST_OTHERS = 32
"""Steps of others in a row after which the leader is taken to be done with its training."""


class Leader:
    """The first optimizer that stepped, until it is gone or others alone go on."""

    def __init__(self) -> None:
        self._reference: Any = None
        self._others = 0

    @property
    def optimizer(self) -> Any:
        """The optimizer that leads; None before the first step, or where it is gone."""
        return None if self._reference is None else self._reference()

    def ends_step(self, optimizer: Any) -> bool:
        """Whether this optimizer, which has just stepped, ends a step of the program."""
        leader = None if self._reference is None else self._reference()
        if leader is not optimizer:
            self._others += 1
            if leader is not None and self._others <= MOST_OTHERS:
                return False
            self._reference = weakref.ref(optimizer)
        self._others = 0
        return True


def find_device(optimizer: Any) -> Any:
    """Where an optimizer's parameters are; without any, the device that the program has taken."""
    for group in () if optimizer is None else optimizer.param_groups:
        for parameter in group["params"]:
            return parameter.device
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
