"""A user's script as the source of a traced step, run as it stands; its steps are its optimizers'.

Changes torch's own functions for the rest of the process, which traces and then ends.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from trainload_worker.errors import WorkerProblem
from trainload_worker.frameworks.torch.fake_step.trace import (
    MEASURE,
    Enough,
    TraceProblem,
    Tracer,
    explain,
)
from trainload_worker.process.script import exit_status, run_script
from trainload_worker.protocol.spec import ScriptSpec


def trace_script(tracer: Tracer, source: ScriptSpec) -> None:
    """Runs the script until enough steps were seen; TraceProblem where it ends without one."""
    if not os.path.isfile(source.path):
        raise TraceProblem(f"{source.path}: no such file")
    watch = _ScriptWatch(tracer)
    watch.attach()
    name = os.path.basename(source.path)
    try:
        run_script(source)
    except SystemExit as end:
        if exit_status(end) and not tracer.steps:
            said = f"{name}: the script exited with {end.code!r}"
            raise TraceProblem(f"{said} before its first optimizer step") from end
    except Exception as error:
        if isinstance(error, WorkerProblem):
            raise
        if watch.backwards and not tracer.steps:
            # Without steps a script runs past its training, where nothing is saved to go on from.
            said = f"{name}: {watch.backwards} backward passes and no optimizer step"
            raise TraceProblem(f"{said}, then {explain(error, name)}") from error
        raise explain(error, name) from error
    if not tracer.steps:
        why = "" if watch.backwards else " and no backward pass"
        raise TraceProblem(f"{name} ended without an optimizer step{why}; {MEASURE}")


class _ScriptWatch:
    """Finds the steps of a script by its optimizers, and makes it run without numbers."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._main: Any = None
        self._others = False
        self._open = False
        self.backwards = 0

    def attach(self) -> None:
        """Replaces what needs values, processes or files: loaders, saving."""
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        plain = torch.autograd.backward
        watch = self

        def backward(*args: Any, **kwargs: Any) -> Any:
            watch.begin_backward()
            return plain(*args, **kwargs)

        torch.autograd.backward = backward
        torch.save = lambda *_args, **_kwargs: None
        _keep_loaders_here()
        torch.isfinite = _finite
        torch.Tensor.isfinite = _finite
        step_without_asking()
        self._tracer.dispatch.check = None

    def begin_backward(self) -> None:
        """Marks the beginning of a backward pass, of which a step may have several."""
        self.backwards += 1
        tracer = self._tracer
        if not self._open:
            self._begin()
        tracer.layers.phase = "forward"
        tracer.begin_backward()

    def _begin(self) -> None:
        tracer = self._tracer
        tracer.tell_weights(tracer.layers.roots)
        tracer.begin_step()
        self._open = True

    def _before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not self._open:
            self._begin()
        held = (p for group in optimizer.param_groups for p in group["params"])
        self._tracer.begin_update(held)

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        tracer = self._tracer
        if self._main is None:
            self._main = optimizer
            tracer.optimizer_name = type(optimizer).__name__.lower()
        self._others = self._others or optimizer is not self._main
        if optimizer is not self._main:
            tracer.layers.phase = "forward"
            return
        tracer.end_step(optimizer)
        self._open = False
        # With two optimizers the first one's step stands in the middle of the loop.
        if tracer.steps >= tracer.spec.iterations + (1 if self._others else 0):
            raise Enough
        self._begin()


def step_without_asking() -> None:
    """Has gradient scalers take every gradient for finite: whether it is stands in no trace."""
    torch.amp.GradScaler._maybe_opt_step = lambda _self, optimizer, _state, *args, **kwargs: (
        optimizer.step(*args, **kwargs)
    )


def _finite(tensor: Any) -> Any:
    found = torch.ones_like(tensor, dtype=torch.bool)
    found.answer = True
    return found


def _keep_loaders_here() -> None:
    loader = torch.utils.data.DataLoader
    plain = loader.__init__

    def begin(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        for name in ("prefetch_factor", "multiprocessing_context"):
            kwargs.pop(name, None)
        kwargs.update(num_workers=0, persistent_workers=False, pin_memory=False)
        plain(self, dataset, *args[:4], **kwargs)

    loader.__init__ = begin
