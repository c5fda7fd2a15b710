"""Tells from inside a torch program when its steps end; changes nothing the program computes.

A step ends when the program's leading optimizer has stepped: gradient accumulation counts once,
and a second optimizer falls into the step after. The very first one, whose start nobody saw, only
starts the clock. Where no optimizer ever steps, each backward pass ends a step. Whatever goes wrong
in here switches the probe off and leaves the training alone.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from time import monotonic
from typing import Any, Callable, Optional, Tuple

import torch

from trainload_worker.frameworks.backends import Opened, StepBatch
from trainload_worker.frameworks.torch.backend import HostStepClock, read_software
from trainload_worker.frameworks.torch.backward import Renewals, in_optimizer_step
from trainload_worker.frameworks.torch.clock import CudaStepClock, StepLoss, keep_loss
from trainload_worker.frameworks.torch.compilations import Compilations
from trainload_worker.frameworks.torch.content import Content
from trainload_worker.frameworks.torch.leader import Leader, find_device
from trainload_worker.frameworks.torch.optimizer_steps import optimizer_steps
from trainload_worker.frameworks.torch.rests import SEEN_S, Rests
from trainload_worker.frameworks.torch.watcher import ContentWatcher
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import ProbeFailed, ProbeNote, StepMarks
from trainload_worker.training.loop import FLUSH_PERIOD_S, StepLog

RESTS = "steps are short: all are timed, losses and batches read of some in every half second"
"""What is told of the first rest."""


class _RestedContent(Tuple[Optional[int], Optional[int], None]):
    """Of steps that nobody saw: as those before them, and no loss."""


class StepProbe:
    """Writes a `steps` line for what the program has done, every half second.

    Of short steps on a GPU that are all alike it sees a part; `rests` has it do so anywhere, or
    nowhere.
    """

    def __init__(self, events: EventWriter, *, rests: bool | None = None) -> None:
        self._events = events
        self._log: StepLog | None = None
        self._clock: HostStepClock | CudaStepClock | None = None
        self._may_rest = rests
        self._rests = Rests()
        self._step_s = math.inf
        """Mean time of the steps of the last flush, where some of the next may be let pass."""
        self._rested_before = False
        self._end_rest = self._guard(self._look_again)
        self._leader = Leader()
        self._watcher = ContentWatcher(
            events, self._guard(self._before_pass), self._guard(self._after_pass)
        )
        self._content = self._watcher.content
        self._contents: deque[Content] = deque()
        self._compilations = Compilations(events)
        self._note_other = self._guard(self._note_optimizer)
        self._steady: Callable[[], Any] = _nobody
        """The optimizer that ended the last step, if the next is to be taken from it without more
        ado."""
        self._renewals: Renewals | None = Renewals()
        """While no optimizer has stepped."""
        self._told = False
        self._failed = False
        self._flush_s = 0.0
        self._due_s = 0.0
        """When to flush or look away, whichever comes first."""
        self._start_s = 0.0
        self._undo: list[Callable[[], None]] = []
        self._marks = 0
        self.on_backward_step: Callable[[int], None] | None = None
        """Called with each step that a backward pass ends, once it is certain that it does."""

    def attach(self) -> None:
        """Begins to watch every optimizer and what is trained."""
        self._undo = [optimizer_steps.follow(self)]
        self._watcher.attach()

    def finish(self) -> None:
        """Writes what is still held and stops watching; waits for the device."""
        optimizer_steps.wake()
        self._guard(self._commit)()
        self._guard(self._flush)(drain=True)
        self._guard(self._compilations.look)()
        self._watcher.detach()
        self._detach()

    def collect(self, drain: bool) -> StepBatch:
        """Steps finished since the last call, for the step log."""
        assert self._clock is not None
        batch = self._clock.collect(drain)
        contents = [self._contents.popleft() for _ in batch.end_s]
        rested = any(type(content) is _RestedContent for content in contents)
        self._plan_rest(batch, rested)
        return StepBatch(
            batch.end_s,
            batch.loss,
            examples=[content[0] for content in contents],
            tokens=[content[1] for content in contents],
        )

    def mark_step(self, loss: Any = None) -> None:
        """Takes a step's end from the program itself; from then on its optimizers are not asked."""
        optimizer_steps.wake()
        self._told, self._steady = True, _nobody
        if self._renewals is not None:
            self._guard(self._leave_backward)()
        self._guard(self._count)(None, _one_number(loss))

    def on_step(self, optimizer: Any) -> None:
        """An optimizer has stepped. In every step, so that few functions are called."""
        try:
            if optimizer is not self._steady():
                self._note_other(optimizer)
                return
            # From here on as `_mark` does it.
            content = self._content.take()
            if content[0] is None or self._watcher.restless:
                self._watcher.search(optimizer, content)
            self._marks += 1
            self._contents.append(content)
            self._clock.mark(content[2])  # type: ignore[union-attr]
            if monotonic() >= self._due_s:
                self._do_due()
        except Exception as error:  # noqa: BLE001 - the user's training comes first
            self._fail(error)

    def idle_until_s(self, optimizer: Any, now_s: float) -> float:  # noqa: ARG002
        """Never for another probe's sake."""
        return now_s

    def pass_steps(self, count: int, now_s: float) -> None:
        """No other probe rests while this one follows."""

    def _note_optimizer(self, optimizer: Any) -> None:
        """One that has not ended the step before: the first, the second of two, or their leader."""
        self._steady = _nobody
        if self._renewals is not None:
            self._leave_backward()
        if not self._leader.ends_step(optimizer):
            self._watcher.forget()
        elif not self._told:
            self._count(optimizer, None)
            if self._log is not None:
                self._steady = weakref.ref(optimizer)

    def _before_pass(self, loss: Any) -> None:
        if self._renewals is None:
            return
        if in_optimizer_step():
            self._leave_backward()
        else:
            self._renewals.before(loss)

    def _after_pass(self, loss: Any) -> None:
        """A backward pass has returned; where no optimizer steps, a step ends here."""
        renewals = self._renewals
        if renewals is None:
            return
        renewals.after()
        on_cuda = isinstance(loss, torch.Tensor) and loss.is_cuda
        if renewals.passes < 2 or (on_cuda and torch.cuda.is_current_stream_capturing()):
            return
        was_certain = self._log is not None
        if renewals.certain and not was_certain:
            self._commit()
        if self._clock is None:
            self._clock = _clock_of(loss.device if on_cuda else torch.device("cpu"))
            self._watcher.begin(None)
            self._start_s = monotonic()
            return
        self._mark(None, None)
        if was_certain and self.on_backward_step is not None:
            self.on_backward_step(self._marks)

    def _commit(self) -> None:
        """Takes backward passes for the ends of steps, where no optimizer has stepped."""
        if self._renewals is None or self._clock is None or self._log is not None:
            return
        self._events.write(StepMarks("backward", t_s=monotonic()))
        self._open_log(self._start_s)

    def _leave_backward(self) -> None:
        """An optimizer steps: what backward passes were taken for counts no more."""
        self._renewals = None
        self._watcher.leave_passes()
        if self._log is not None:
            self._flush(drain=True)
            self._events.write(StepMarks("optimizer", t_s=monotonic()))
            count = self._log.next_step - 1
            words = f"{count} backward passes before an optimizer's first step are no steps here"
            self._events.write(ProbeNote(words, t_s=monotonic()))
        else:
            self._marks = 0
        self._clock = None
        self._contents.clear()

    def _count(self, optimizer: Any, loss: Any) -> None:
        if self._clock is None:
            self._clock = _clock_of(find_device(self._leader.optimizer))
            self._open_log(monotonic())
            self._watcher.begin(optimizer)
            return
        self._mark(optimizer, loss)
        self._watcher.expect(optimizer)

    def _mark(self, optimizer: Any, loss: Any) -> None:
        """A step has ended; the loss is that of its backward passes unless it is given."""
        content = self._content.take()
        if content[0] is None or self._watcher.restless:
            self._watcher.search(optimizer, content)
        self._marks += 1
        self._contents.append(content)
        self._clock.mark(content[2] if loss is None else loss)  # type: ignore[union-attr]
        if monotonic() >= self._due_s:
            self._do_due()

    def _do_due(self) -> None:
        if self._log is None:
            return
        now_s = monotonic()
        if now_s < self._flush_s:
            self._look_away()
            return
        self._flush(drain=False)
        self._watcher.look_for_writers()
        self._compilations.look()

    def _plan_rest(self, batch: StepBatch, rested: bool) -> None:
        """Steps were collected: whether some of the next half second may be let pass."""
        if self._log is None or not batch.end_s:
            return
        times_s = _times([self._log.end_s, *batch.end_s])
        self._rests.note_seen([] if rested else times_s, self._watcher.phases)
        if self._may_rest or (self._may_rest is None and isinstance(self._clock, CudaStepClock)):
            self._step_s = sum(times_s) / len(times_s)

    def _look_away(self) -> None:
        """Lets steps pass until the next flush, where those seen of late were all alike."""
        self._due_s = self._flush_s
        steady, content = self._steady, self._contents[-1]
        alike = all(one[:2] == content[:2] for one in self._contents)
        self._compilations.look()
        if steady() is None or not alike or not self._watcher.calm or self._compilations.any_seen:
            return
        begin_s = monotonic()
        rested = _RestedContent((content[0], content[1], None))

        def end(ends_s: list[float]) -> None:
            self._end_rest(begin_s, ends_s, rested)

        if not optimizer_steps.rest(self, steady, self._flush_s, end):
            self._due_s = min(self._flush_s, begin_s + SEEN_S)
            return
        self._watcher.look_away(optimizer_steps.wake)
        if not self._rested_before:
            self._rested_before = True
            self._events.write(ProbeNote(RESTS, t_s=begin_s))

    def _look_again(self, begin_s: float, ends_s: list[float], content: Content) -> None:
        """A rest is over, in which steps with such content have passed."""
        self._watcher.look_again(len(ends_s))
        if ends_s:
            self._clock.mark_rested(begin_s, ends_s)  # type: ignore[union-attr]
            self._contents.extend([content] * len(ends_s))
            self._marks += len(ends_s)
            self._rests.note_rest(_times([begin_s, *ends_s]), self._watcher.phases)
        now_s = monotonic()
        self._due_s = min(self._flush_s, self._rests.begin_s(now_s, self._step_s))
        if now_s >= self._flush_s:
            self._do_due()

    def _open_log(self, start_s: float) -> None:
        # After backward passes one number is that of the step whose start nobody saw.
        first = 1 if self._log is None else self._log.next_step + 1
        self._log = StepLog(self, self._events, epoch=0, first_step=first)
        self._log.begin(start_s)
        self._flush_s = self._due_s = monotonic() + FLUSH_PERIOD_S

    def _flush(self, drain: bool) -> None:
        if self._log is not None:
            self._log.flush(drain)
            now_s = monotonic()
            self._flush_s = now_s + FLUSH_PERIOD_S
            self._due_s = min(self._flush_s, self._rests.begin_s(now_s, self._step_s))

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        """The same work, but an error ends the probe and not the program."""

        def guarded(*args: Any, **kwargs: Any) -> None:
            if self._failed:
                return
            try:
                work(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the user's training comes first
                self._fail(error)

        return guarded

    def _fail(self, error: Exception) -> None:
        # The hook stays until the end: torch is going through its hooks just now.
        self._failed, self._steady = True, _nobody
        self._log = None
        reason = f"{type(error).__name__}: {error}"
        self._events.write(ProbeFailed(reason, t_s=monotonic()))

    def _detach(self) -> None:
        while self._undo:
            self._undo.pop()()


def _times(moments_s: list[float]) -> list[float]:
    return [later_s - one_s for one_s, later_s in zip(moments_s, moments_s[1:])]


def _nobody() -> None:
    """Stands where no optimizer does."""


def _clock_of(device: Any) -> HostStepClock | CudaStepClock:
    """The clock for where the trained parameters are; a device is waited for this once."""
    return CudaStepClock(device) if device.type == "cuda" else HostStepClock()


def _one_number(loss: Any) -> float | StepLoss | None:
    """The loss as it is kept, where it is one number; None where it is none."""
    try:
        number = None if loss is None else torch.as_tensor(loss)
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if number is None or number.numel() != 1 else keep_loss(number.detach())


def open_framework(*, ask_device: bool = False) -> Opened:
    """torch as found, by default without touching a device: the script may want to fork first."""
    return Opened(
        version=str(torch.__version__),
        software=read_software(ask_device=ask_device),
        device="as the script chooses",
        threads=int(torch.get_num_threads()),
        accelerators=None,
        notes=[],
    )
