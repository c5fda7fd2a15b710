"""Explains steps of a torch training by layer: opens windows when due and records them.

Never raises into the training: whatever goes wrong in here ends the windows, and is recorded.
"""

from __future__ import annotations

import math
import os
import weakref
from dataclasses import dataclass
from time import monotonic
from typing import Any, Callable

from torch.autograd import profiler as kineto

from trainload_worker.frameworks.torch.compiled import compiled_graphs
from trainload_worker.frameworks.torch.compiler import hide_from_compiler
from trainload_worker.frameworks.torch.leader import Leader, find_device
from trainload_worker.frameworks.torch.modules import ModuleNames
from trainload_worker.frameworks.torch.optimizer_steps import optimizer_steps
from trainload_worker.frameworks.torch.parents import known_parents
from trainload_worker.frameworks.torch.tracer import Tracer, settle
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import LayersSpec
from trainload_worker.protocol.windows import LayersFailed, ModuleTable, WindowSaved
from trainload_worker.windows.asked import AskedWindow
from trainload_worker.windows.host_stacks import StackSampler
from trainload_worker.windows.plan import WindowPlan, WindowShape
from trainload_worker.windows.together import Agreement

_PROFILED = "the program uses the profiler itself"
REST_S = 0.3
"""Between two windows: Kineto lets go of the driver in a thread of its own (kineto 1554)."""
_following: list[LayerProbe] = []
"""The probe that traces in this process, while there is one."""


@dataclass
class _Window:
    """A window while it is open."""

    shape: WindowShape
    opened_s: float
    first_traced: int
    last_done: int = -1

    @property
    def first_step(self) -> int:
        """The first step to use."""
        return self.first_traced + self.shape.warm_steps

    @property
    def last_step(self) -> int:
        return self.first_step + self.shape.steps - 1


def _nobody() -> None:
    """Stands where no optimizer does."""


class LayerProbe:
    """Follows the program's leading optimizer and traces some of its steps, numbered from 0."""

    def __init__(
        self,
        events: EventWriter,
        spec: LayersSpec,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._events = events
        self._spec = spec
        self._clock = clock
        asked = None if spec.ask is None or not spec.leads else AskedWindow(spec.ask)
        self._plan = WindowPlan(spec.budget, rest_s=REST_S, asked=asked)
        self._agreement = None if spec.plan is None else Agreement(spec.plan, spec.leads)
        self._alone = self._agreement is None or spec.leads
        """Whether no other process decides when a window opens."""
        self._names = ModuleNames(known_parents)
        self._tracer = Tracer(self._names)
        self._stacks = StackSampler()
        self._optimizers: Any = weakref.WeakSet()
        self._leader = Leader()
        self._steady: Callable[[], Any] = _nobody
        """The optimizer that ended the last step, if it alone ends steps."""
        self._step = -1
        self._told = False
        self._device: Any = None
        self._window: _Window | None = None
        self._modules: list[dict[str, Any]] = []
        self._graphs: set[str] = set()
        self._off = True
        self._in_parent_only = False
        self._undo: list[Callable[[], None]] = []
        self.refusal: str | None = None
        """Why it follows nothing, where that is so from the start."""

    def attach(self) -> None:
        """Begins to follow every optimizer; not where another probe does: one alone can trace."""
        if _following:
            self.refusal = "a run or watch around it traces the layers of this process already"
            self._give_up(self.refusal)
            return
        _following.append(self)
        self._off = False
        compiled_graphs.follow()
        self._undo = [
            optimizer_steps.follow(self),
            self._give_way_to_profilers(),
            compiled_graphs.leave,
        ]
        if not self._in_parent_only:
            self._in_parent_only = True
            os.register_at_fork(after_in_child=self._forget)

    def detach(self) -> None:
        """Stops following; an open window is thrown away."""
        self._stop()
        while self._undo:
            self._undo.pop()()
        if self in _following:
            _following.remove(self)

    def mark_step(self, number: int | None = None) -> None:
        """Takes a step's end from the program itself; from then on its optimizers are not asked.

        `number` is that of a step which a backward pass has ended, while no optimizer steps.
        """
        self._steady = _nobody
        if number is None:
            self._told = True
        else:
            self._step = number - 1
        self._follow(self._count_step)

    def name_model(self, model: Any) -> None:
        """Makes a model known before any part of it is called on its own."""
        self._follow(self._names.name, model, None)

    def finish(self) -> None:
        """Ends the windows; an open one is kept if it holds a whole step to use."""
        self._follow(self._close_what_is_open)
        self.detach()

    def on_step(self, optimizer: Any) -> None:
        """An optimizer's step was given to the device. In every step: few functions are called."""
        if optimizer is not self._steady():
            self._steady = _nobody
            self._follow(self._note_optimizer, optimizer)
        elif self._window is None and self._alone and self._plan.pass_step(self._clock()):
            self._step += 1
        else:
            self._follow(self._count_step)

    def idle_until_s(self, optimizer: Any, now_s: float) -> float:
        """Until when no window can be due, as long as this optimizer alone steps."""
        if self._off:
            return math.inf
        steady = self._window is None and optimizer is self._steady()
        if not steady or self._agreement is not None or self._clock is not monotonic:
            return now_s
        return self._plan.idle_until(now_s)

    def pass_steps(self, count: int, now_s: float) -> None:
        """So many steps have passed within that time."""
        if not self._off:
            self._step += count
            self._plan.pass_steps(count, now_s)

    def _follow(self, work: Callable[..., object], *arguments: Any) -> None:
        """The work, whose errors end the windows and not the program."""
        if self._off:
            return
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - the user's training comes first
            self._give_up(f"{type(error).__name__}: {error}")

    def _note_optimizer(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)
        if self._leader.ends_step(optimizer) and not self._told:
            self._steady = weakref.ref(optimizer)
            self._count_step()

    def _count_step(self) -> None:
        self._step += 1
        if self._device is None:
            self._device = find_device(self._leader.optimizer)
            self._plan.dear = self._device.type == "cuda"
        if self._window is None:
            self._consider(self._step)
        else:
            self._trace(self._window, self._step)

    def _consider(self, step: int) -> None:
        shape = self._plan.count_step(self._clock())
        if self._agreement is not None:
            shape = self._agreement.settle(step, shape)
        if shape is not None and self._tracer.is_taken():
            self._give_up(_PROFILED)
        elif shape is not None:
            settle(self._device)
            opened_s = self._clock()
            slowdown = self._plan.slowdown
            # On a CPU nothing stays attached: slower steps are then the machine's other work.
            if self._device.type == "cuda" and self._plan.exceeds(slowdown):
                self._give_up(f"steps take {slowdown:.2f} times as long as before the first window")
                return
            self._tracer.open(memory=shape.purpose == "memory")
            if shape.purpose == "time":
                hide_from_compiler(StackSampler.HANDLERS)
                self._stacks.start(self._plan.step_s)
            self._mark(step)
            self._window = _Window(shape, opened_s, step + 1)

    def _mark(self, step: int) -> None:
        self._stacks.mark(step, self._tracer.mark)

    def _trace(self, window: _Window, step: int) -> None:
        self._mark(step)
        window.last_done = step
        if self._tracer.overflown:
            self._give_up("one step calls too many modules to be traced")
        elif step >= window.last_step:
            self._close(window, step)

    def _close_what_is_open(self) -> None:
        window = self._window
        if window is not None and window.last_done >= window.first_step:
            self._close(window, window.last_done)

    def _close(self, window: _Window, last_step: int) -> None:
        self._stacks.stop()
        settle(self._device)
        index, steps = self._plan.windows, last_step - window.first_traced + 1
        name = self._spec.file_form.format(index=index)
        path = os.path.join(self._spec.folder, name)
        self._window = None
        self._tracer.close(path)
        self._record_modules()
        if window.shape.purpose == "time":
            self._events.write(self._stacks.take(index))
        end_s = self._clock()
        cost_s = self._plan.note_window(window.opened_s, end_s, steps, os.path.getsize(path))
        self._events.write(
            WindowSaved(
                index=index,
                purpose=window.shape.purpose,
                file=name,
                device=str(self._device),
                first_step=window.first_step,
                last_step=last_step,
                # Those before and after pay for starting the trace and for saving it.
                disturbed=(window.first_traced - 1, last_step + 1),
                begin_s=window.opened_s,
                end_s=end_s,
                cost_s=cost_s,
            )
        )

    def _record_modules(self) -> None:
        """Writes the table of modules when it has changed, and what was compiled since."""
        modules = self._names.table(self._optimizers)
        if modules != self._modules:
            self._modules = modules
            self._events.write(ModuleTable(tuple(modules), self._names.compiled))
        for graph in compiled_graphs.others_than(self._graphs):
            self._events.write(graph)

    def _give_up(self, reason: str) -> None:
        self._stop()
        self._events.write(LayersFailed(reason, t_s=monotonic()))

    def _stop(self) -> None:
        """Traces no more; hooks stay until `detach`, since this may be called from inside one."""
        self._off, self._steady = True, _nobody
        self._window = None
        self._stacks.stop()
        try:
            if self._tracer.active:
                self._tracer.close(None)
        except Exception as error:  # noqa: BLE001 - as above
            reason = f"the tracer could not be stopped: {error}"
            self._events.write(LayersFailed(reason, t_s=monotonic()))

    def _forget(self) -> None:
        """In a forked child, such as a loader's worker: the windows are the parent's."""
        self._off, self._steady = True, _nobody
        self._tracer.abandon()

    def _give_way_to_profilers(self) -> Callable[[], None]:
        """Ends the windows when the program starts a profiler itself: only one can run."""
        original = kineto.profile._prepare_trace

        def prepare_trace(profile: Any) -> Any:
            if not self._off:
                self._give_up(_PROFILED)
            return original(profile)

        def restore() -> None:
            kineto.profile._prepare_trace = original

        kineto.profile._prepare_trace = prepare_trace
        return restore
