"""Sees what each step of a torch program trains on, and its phases; changes nothing it computes.

Puts together what is seen of calls, backward passes and saved files. Whatever goes wrong in here
ends the seeing, with a note; steps are still counted and the training goes on.
"""

from __future__ import annotations

import functools
from time import monotonic
from typing import Any, Callable

import torch
from torch import Tensor, is_grad_enabled
from torch.compiler import is_dynamo_compiling

from trainload_worker.frameworks.torch.backward import BackwardPasses
from trainload_worker.frameworks.torch.calls import ModelCalls
from trainload_worker.frameworks.torch.clock import StepLoss
from trainload_worker.frameworks.torch.content import NOTHING, Content, StepContent
from trainload_worker.frameworks.torch.script_phases import ScriptPhases
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import ProbeNote

MOST_COPIES = 100
"""Copies of models that are kept in mind."""


class ContentWatcher:
    """Follows a program from `attach` to `detach`; whoever ends a step takes its `content`.

    `before` and `after` are called around each backward pass, as BackwardPasses calls them.
    """

    def __init__(
        self,
        events: EventWriter,
        before: Callable[[Any], None],
        after: Callable[[Any], None],
    ) -> None:
        self._events = events
        self._before: Callable[[Any], None] | None = before
        self.content = StepContent()
        """Of the step that is under way; empty once something has gone wrong."""
        self._phases = ScriptPhases(events)
        self._calls = ModelCalls(self._on_call, self._phases.note_return, self._on_copy)
        self._passes = BackwardPasses(self._before_pass, after)
        self._off = False
        self._copies: dict[int, tuple[int, bool]] = {}
        """Copies of models by id: in which step one was called last, and whether that validates."""
        self._settled = 0
        """The step in which models were found last."""
        self._trains_in_training_mode = False
        self._optimizer_of_calls: int | None = None
        self.restless = False
        """Whether models are being looked for in the calls of this step."""
        self.search = self._guard(self._search)
        """To be called with the optimizer that has ended a step, and the step's content, where no
        call was seen or while this is restless."""
        self._silent = 0
        """Steps in a row of which no call was seen."""
        self._refusals: set[str] = set()
        """Those that were told."""
        self._on_evaluation: Callable[[], None] | None = None
        """While nothing is looked at: to be called when a model is about to be evaluated."""
        self._uncover_evaluation: Callable[[], None] | None = None

    def attach(self) -> None:
        """Begins to see backward passes and files; models once an optimizer has stepped."""
        self._guard(self._phases.attach)()
        self._passes.attach()

    def detach(self) -> None:
        """Leaves torch as it was found."""
        self._guard(self._phases.end)()
        for undo in (self._passes.detach, self._calls.end, self._phases.detach):
            undo()
        if self._uncover_evaluation is not None:
            self._uncover_evaluation()

    @property
    def phases(self) -> int:
        """How many phases the program has had so far."""
        return self._phases.count

    @property
    def calm(self) -> bool:
        """Whether nothing is looked for, and nothing but training was seen of late."""
        return not (self.restless or self._copies or self._phases.open)

    def look_away(self, on_evaluation: Callable[[], None]) -> None:
        """Sees no calls and no backward passes until `look_again`; that a model is put into its
        evaluation mode is told."""
        if self._uncover_evaluation is None:
            self._cover_evaluation()
        self._on_evaluation = on_evaluation
        self._passes.rest()
        self._calls.rest()

    def look_again(self, steps: int) -> None:
        """Goes on, after so many steps."""
        self._on_evaluation = None
        self._calls.wake()
        self._passes.wake()
        self.content.steps += steps

    def _cover_evaluation(self) -> None:
        """Stays until the end: each change of that class has the interpreter look all modules'
        attributes up anew."""
        module = torch.nn.Module
        original = module.eval

        def evaluate(this: Any) -> Any:
            if self._on_evaluation is not None and not is_dynamo_compiling():
                self._on_evaluation()
            return original(this)

        def restore() -> None:
            if module.eval is evaluate:
                module.eval = original

        functools.update_wrapper(evaluate, original)
        module.eval = evaluate
        self._uncover_evaluation = restore

    def leave_passes(self) -> None:
        """Nobody but this asks for backward passes any more."""
        self._before = None
        self._passes.after = None

    def begin(self, optimizer: Any) -> None:
        """The first step has ended: from here on models are known by what it has stepped."""
        self._guard(self._look)(optimizer)

    def expect(self, optimizer: Any) -> None:
        """This optimizer has ended a step, maybe as the first after another."""
        if id(optimizer) != self._optimizer_of_calls:
            self._guard(self._look_for)(optimizer, near=True)

    def forget(self) -> None:
        """An optimizer that ends no step has used what was computed since the last one."""
        self.content.take()
        self.content.steps -= 1

    def look_for_writers(self) -> None:
        """Now and then: the program may have loaded what it saves with."""
        self._guard(self._phases.look_for_writers)()

    def _look(self, optimizer: Any) -> None:
        self.content.take()
        self._look_for(optimizer)

    def _look_for(self, optimizer: Any, near: bool = False) -> None:
        self._optimizer_of_calls = id(optimizer)
        self.content.repeats = isinstance(optimizer, torch.optim.LBFGS)
        self._calls.look(optimizer, near=near)
        self.restless = self._calls.finding
        refusal = self._calls.refusal
        if refusal is not None and refusal not in self._refusals:
            self._refusals.add(refusal)
            words = f"examples and validation of some steps are missing: {refusal}"
            self._events.write(ProbeNote(words, t_s=monotonic()))

    def _search(self, optimizer: Any, content: Content) -> None:
        """Looks for models anew, ever more seldom: one may be gone, or another training begun."""
        if self.restless:
            self.restless = False
            if not self._calls.settle():
                self._look_for(optimizer)
            self._copies.clear()
            self._settled = self.content.steps
            return
        self._silent = self._silent + 1 if content[0] is None else 0
        if self._silent >= 2 << self._calls.vain:
            self._silent = 0
            self._look_for(optimizer)

    # The next two are called in every pass: no wrapper around them, nothing done twice.

    def _on_call(self, model: Any, args: Any, kwargs: Any) -> bool:
        """Whether the call validates, so that its end is of interest."""
        if self._off:
            return False
        try:
            training, content = model.training, self.content
            if is_grad_enabled() and (training or not self._trains_in_training_mode):
                if training and not self._trains_in_training_mode:
                    self._trains_in_training_mode = True
                    # Calls in evaluation mode before were not the training's.
                    content.forget_calls()
                if self._phases.open is not None:
                    self._phases.end()
                first: Any = args[0] if args else None
                if (
                    type(first) is Tensor
                    and first.shape == content.shape
                    and first.dtype is content.dtype
                ):
                    if content.like[0] > content.called[0]:
                        content.called = content.like
                else:
                    content.note_call(args, kwargs)
                return False
            if not training:
                self._phases.note_validation()
            return self._phases.open is not None
        except Exception as error:  # noqa: BLE001 - as above
            self._end_with(error)
            return False

    def _on_copy(self, model: Any) -> bool:
        """Whether a copy's call validates: not that of a teacher, which is called in every step."""
        if self._off or is_grad_enabled():
            return False
        try:
            step, key = self.content.steps, id(model)
            last, validates = self._copies.get(key, (self._settled, False))
            if step != last:
                validates = step > last + 1
            if len(self._copies) >= MOST_COPIES:
                self._copies.clear()
            self._copies[key] = (step, validates)
            if validates:
                self._phases.note_validation()
            return validates
        except Exception as error:  # noqa: BLE001 - as above
            self._end_with(error)
            return False

    def _before_pass(self, loss: Any) -> None:
        if not self._off:
            try:
                if self._phases.open is not None:
                    self._phases.end()
                content = self.content
                if content.summed is None and content.called is not NOTHING:
                    content.summed, content.called = content.called, NOTHING
                elif content.called is not NOTHING:
                    content.end_calls()
                if type(loss) is Tensor and loss.numel() == 1 and loss.is_floating_point():
                    if content.loss is not None:
                        content.add_loss(loss)
                    else:
                        content.loss = loss.item() if loss.is_cpu else StepLoss(loss)
            except Exception as error:  # noqa: BLE001 - as above
                self._end_with(error)
        if self._before is not None:
            self._before(loss)

    def _end_with(self, error: Exception) -> None:
        self._off = True
        self.content.take()
        words = f"examples and losses were no longer seen: {type(error).__name__}: {error}"
        self._events.write(ProbeNote(words, t_s=monotonic()))

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        """The same work, but an error ends what this sees and not the program."""

        def guarded(*args: Any, **kwargs: Any) -> None:
            if self._off:
                return
            try:
                work(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the user's training comes first
                self._end_with(error)

        return guarded
