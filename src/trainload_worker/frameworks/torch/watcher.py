"""Sees what each step of a torch program trains on, and its phases; changes nothing it computes.

Puts together what is seen of calls, backward passes and saved files. Whatever goes wrong in here
ends the seeing, with a note; steps are still counted and the training goes on.
"""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

from trainload_worker.frameworks.torch.backward import BackwardPasses
from trainload_worker.frameworks.torch.calls import ModelCalls
from trainload_worker.frameworks.torch.content import EMPTY, Content, StepContent
from trainload_worker.frameworks.torch.script_phases import ScriptPhases
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.events import ProbeNote


class ContentWatcher:
    """Follows a program from `attach` to `detach`; `take` gives a step's content at its end.

    `before` and `after` are called around each backward pass, as BackwardPasses calls them.
    """

    def __init__(
        self,
        events: EventWriter,
        before: Callable[[Any], None],
        after: Callable[[Any], None],
    ) -> None:
        self._events = events
        self._before = before
        self._content = StepContent()
        self._phases = ScriptPhases(events)
        self._calls = ModelCalls(self._guard(self._on_call), self._phases.note_return)
        self._note_backward = self._guard(self._on_backward)
        self._passes = BackwardPasses(self._before_pass, after)
        self._off = False
        self._trains_in_training_mode = False
        self._optimizer_of_calls: int | None = None
        self._silent = 0
        """Steps in a row of which no call was seen."""

    def attach(self) -> None:
        """Begins to see backward passes and files; models once an optimizer has stepped."""
        self._guard(self._phases.attach)()
        self._passes.attach()

    def detach(self) -> None:
        """Leaves torch as it was found."""
        self._guard(self._phases.end)()
        for undo in (self._passes.detach, self._calls.end, self._phases.detach):
            undo()

    def begin(self, optimizer: Any) -> None:
        """The first step has ended: from here on models are known by what it has stepped."""
        self._guard(self._look)(optimizer)

    def take(self, optimizer: Any) -> Content:
        """The content of the step that has just ended."""
        found = [EMPTY]
        self._guard(self._take)(optimizer, found)
        return found[0]

    def forget(self) -> None:
        """An optimizer that ends no step has used what was computed since the last one."""
        self._content.take()

    def look_for_writers(self) -> None:
        """Now and then: the program may have loaded what it saves with."""
        self._guard(self._phases.look_for_writers)()

    def _look(self, optimizer: Any) -> None:
        self._content.take()
        self._optimizer_of_calls = id(optimizer)
        self._calls.look(optimizer)

    def _take(self, optimizer: Any, found: list[Content]) -> None:
        found[0] = self._content.take(repeats=isinstance(optimizer, torch.optim.LBFGS))
        if self._calls.finding:
            self._calls.settle()
            return
        self._silent = self._silent + 1 if found[0].examples is None else 0
        # A model that is gone, or another training: looked for again, ever more seldom.
        if self._silent >= 1 << self._calls.looks or id(optimizer) != self._optimizer_of_calls:
            self._silent = 0
            self._optimizer_of_calls = id(optimizer)
            self._calls.look(optimizer)

    def _on_call(self, model: Any, args: Any, kwargs: Any) -> None:
        graded = torch.is_grad_enabled()
        if graded and (model.training or not self._trains_in_training_mode):
            if model.training and not self._trains_in_training_mode:
                self._trains_in_training_mode = True
                # Calls in evaluation mode before were not the training's.
                self._content.forget_calls()
            self._phases.note_training()
            self._content.note_call(args, kwargs)
        elif not model.training:
            self._phases.note_validation()

    def _before_pass(self, loss: Any) -> None:
        self._note_backward(loss)
        self._before(loss)

    def _on_backward(self, loss: Any) -> None:
        self._phases.note_training()
        self._content.note_backward(loss)

    def _guard(self, work: Callable[..., None]) -> Callable[..., None]:
        """The same work, but an error ends what this sees and not the program."""

        def guarded(*args: Any) -> None:
            if self._off:
                return
            try:
                work(*args)
            except Exception as error:  # noqa: BLE001 - the user's training comes first
                self._off = True
                words = f"examples and losses were no longer seen: {type(error).__name__}: {error}"
                self._events.write(ProbeNote(words, t_s=time.monotonic()))

        return guarded
