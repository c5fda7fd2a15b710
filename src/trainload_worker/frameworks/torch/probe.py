"""Tells from inside a torch program when its steps end; changes nothing the program computes.

A step ends when the program's leading optimizer has stepped: gradient accumulation counts once,
and a second optimizer falls into the step after. The very first one, whose start nobody saw, only
starts the clock: hooks on modules would tell it, but compiled modules complain of them. Whatever
goes wrong in here switches the probe off and leaves the training alone.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from trainload_worker.frameworks.backends import Opened
from trainload_worker.frameworks.torch.backend import HostStepClock, StepClock, read_software
from trainload_worker.frameworks.torch.clock import CudaStepClock
from trainload_worker.frameworks.torch.leader import Leader, find_device
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import ProbeFailed
from trainload_worker.training.loop import FLUSH_PERIOD_S, StepLog


class StepProbe:
    """Writes a `steps` line for what the optimizer has done, every half second."""

    def __init__(self, events: EventWriter) -> None:
        self._events = events
        self._log: StepLog | None = None
        self._clock: StepClock | None = None
        self._leader = Leader()
        self._told = False
        self._failed = False
        self._flush_s = 0.0
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Begins to watch every optimizer."""
        self._hooks = [register_optimizer_step_post_hook(self._guard(self._on_step))]

    def finish(self) -> None:
        """Writes what is still held and stops watching; waits for the device."""
        self._guard(self._flush)(drain=True)
        self._detach()

    def collect(self, drain: bool) -> Any:
        """Steps finished since the last call, for the step log."""
        assert self._clock is not None
        return self._clock.collect(drain)

    def mark_step(self, loss: Any = None) -> None:
        """Takes a step's end from the program itself; from then on its optimizers are not asked."""
        self._told = True
        self._guard(self._count)(_one_number(loss))

    def _on_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._leader.ends_step(optimizer) and not self._told:
            self._count(None)

    def _count(self, loss: Any) -> None:
        if self._clock is None:
            self._clock = self._begin()
            return
        self._clock.mark(loss)
        if time.monotonic() >= self._flush_s:
            self._flush(drain=False)

    def _begin(self) -> StepClock:
        """The clock for where the trained parameters are; a device is waited for this once."""
        device = find_device(self._leader.optimizer)
        on_cuda = device.type == "cuda"
        clock: StepClock = CudaStepClock(device) if on_cuda else HostStepClock()
        self._log = StepLog(self, self._events, epoch=0, first_step=1)
        self._log.begin(time.monotonic())
        self._flush_s = time.monotonic() + FLUSH_PERIOD_S
        return clock

    def _flush(self, drain: bool) -> None:
        if self._log is not None:
            self._log.flush(drain)
            self._flush_s = time.monotonic() + FLUSH_PERIOD_S

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        """The same work, but an error ends the probe and not the program."""

        def guarded(*args: Any, **kwargs: Any) -> None:
            if self._failed:
                return
            try:
                work(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the user's training comes first
                # The hook stays until the end: torch is going through its hooks just now.
                self._failed = True
                self._log = None
                reason = f"{type(error).__name__}: {error}"
                self._events.write(ProbeFailed(reason, t_s=time.monotonic()))

        return guarded

    def _detach(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()


def _one_number(loss: Any) -> Any:
    """The loss as a tensor of one number; None where it is none."""
    try:
        number = None if loss is None else torch.as_tensor(loss)
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if number is None or number.numel() != 1 else number.detach().reshape(())


def open_torch() -> Opened:
    """torch as found, without touching a device: the script may want to fork first."""
    return Opened(
        version=str(torch.__version__),
        software=read_software(ask_device=False),
        device="as the script chooses",
        threads=int(torch.get_num_threads()),
        accelerators=None,
        notes=[],
    )
