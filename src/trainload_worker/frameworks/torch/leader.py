"""Tells which of a program's optimizers ends its steps, and on which device that is.

Holds no optimizer alive: a program may have done with one and free its memory.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

ENOUGH_ALONE = 4
"""Steps of one other optimizer in a row after which it leads, as where layers train in turn."""
MOST_OTHERS = 32
"""The same, of any others, once a leader has come back: then optimizers take turns."""


class Leader:
    """The first optimizer that stepped, until it is gone or others alone go on.

    One that was followed by another too early shows it by stepping again: it leads at once, and
    is waited for longer from then on.
    """

    def __init__(self) -> None:
        self._reference: Any = None
        self._former: list[Any] = []
        self._turns = False
        """Whether a leader has come back after another had taken its place."""
        self._others = 0
        self._other: Any = None
        self._alone = 0
        """Steps in a row of that other one."""

    @property
    def optimizer(self) -> Any:
        """The optimizer that leads; None before the first step, or where it is gone."""
        return None if self._reference is None else self._reference()

    def ends_step(self, optimizer: Any) -> bool:
        """Whether this optimizer, which has just stepped, ends a step of the program."""
        leader = self.optimizer
        if leader is not optimizer:
            if leader is not None and not (self._returns(optimizer) or self._follows(optimizer)):
                return False
            self._reference = weakref.ref(optimizer)
        self._others, self._alone, self._other = 0, 0, None
        return True

    def _returns(self, optimizer: Any) -> bool:
        """Whether this one led before; those that led since were only taking turns with it."""
        for place, former in enumerate(self._former):
            if former() is optimizer:
                del self._former[place:]
                self._turns = True
                return True
        return False

    def _follows(self, optimizer: Any) -> bool:
        """Whether another has stepped often enough to take the leader's place."""
        same = self._other is not None and self._other() is optimizer
        self._alone = self._alone + 1 if same else 1
        self._other = weakref.ref(optimizer)
        self._others += 1
        if self._others <= MOST_OTHERS and (self._turns or self._alone < ENOUGH_ALONE):
            return False
        self._former = [one for one in self._former if one() is not None] + [self._reference]
        return True


def find_device(optimizer: Any) -> Any:
    """Where an optimizer's parameters are; without any, the device that the program has taken."""
    for group in () if optimizer is None else optimizer.param_groups:
        for parameter in group["params"]:
            return parameter.device
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
