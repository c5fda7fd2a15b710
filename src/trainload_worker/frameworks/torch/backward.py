"""Sees where a program's backward passes begin, by standing in for two functions of torch.

What they compute and give back stays theirs; nothing is read of any tensor here.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Callable

import torch
from torch.compiler import is_dynamo_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook

from trainload_worker.frameworks.torch.compiler import hide_from_compiler, set_compiler

ENOUGH_RENEWALS = 10
"""Backward passes in a row that each found its gradients renewed, with no optimizer stepping."""
MOST_PASSES = 1000
"""Backward passes without an optimizer's step after which none is waited for any more."""
_OPTIMIZER_FILE = register_optimizer_step_post_hook.__code__.co_filename
"""Of the function of torch that every optimizer's step runs in."""


class BackwardPasses:
    """Calls `before` with the tensor that a pass begins at, `after` when the pass has returned.

    The tensor is None where a pass begins at several. A loss that torch's scaler has multiplied is
    told as it was before.
    """

    def __init__(self, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
        self._before = before
        self.after: Callable[[Any], None] | None = after
        self._scaled: tuple[Any, Any] | None = None
        """What torch's scaler has made last, and of what."""
        self._rests = False
        self._undo: list[Callable[[], None]] = []
        self._functions: tuple[Any, Any] | None = None
        """Torch's own and ours, while this is attached."""

    def attach(self) -> None:
        """Begins to see them."""
        self._rests = False
        self._cover_backward()
        self._cover_scaler()

    def detach(self) -> None:
        """Leaves both as they were; a program that put its own in place keeps it."""
        self.rest()
        self._functions = None
        while self._undo:
            self._undo.pop()()

    def rest(self) -> None:
        """Sees none until `wake`."""
        self._rests, self._scaled = True, None
        if self._functions is not None and torch.autograd.backward is self._functions[1]:
            torch.autograd.backward = self._functions[0]

    def wake(self) -> None:
        """Sees them again, unless the program has put its own in place."""
        self._rests = False
        if self._functions is not None and torch.autograd.backward is self._functions[0]:
            torch.autograd.backward = self._functions[1]

    def _cover_backward(self) -> None:
        original, before = torch.autograd.backward, self._before

        # Spelled as torch spells it: passing on what is not known by name costs twice as much.
        def backward(
            tensors: Any,
            grad_tensors: Any = None,
            retain_graph: Any = None,
            create_graph: Any = False,
            grad_variables: Any = None,
            inputs: Any = None,
        ) -> Any:
            if is_dynamo_compiling():
                return original(
                    tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
                )
            compiler = set_compiler(None)
            try:
                plain = type(tensors) is torch.Tensor and self._scaled is None
                root = tensors if plain else self._root(tensors)
                before(root)
            finally:
                if compiler is not None:
                    set_compiler(compiler)
            result = original(
                tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs
            )
            if self.after is not None:
                set_compiler(None)
                try:
                    self.after(root)
                finally:
                    set_compiler(compiler)
            return result

        hide_from_compiler((backward,))
        torch.autograd.backward = backward
        self._functions = (original, backward)

    def _cover_scaler(self) -> None:
        scaler = torch.amp.GradScaler
        original = scaler.scale

        def scale(this: Any, outputs: Any) -> Any:
            scaled = original(this, outputs)
            # Held until the pass begins; in a rest nobody would let go of it.
            if isinstance(scaled, torch.Tensor) and not self._rests:
                self._scaled = (scaled, outputs)
            else:
                self._scaled = None
            return scaled

        def restore() -> None:
            if scaler.scale is scale:
                scaler.scale = original

        scaler.scale = scale
        self._undo.append(restore)

    def _root(self, tensors: Any) -> Any:
        if not isinstance(tensors, torch.Tensor):
            if not isinstance(tensors, (tuple, list)) or len(tensors) != 1:
                return None
            tensors = tensors[0]
        scaled, self._scaled = self._scaled, None
        return scaled[1] if scaled is not None and scaled[0] is tensors else tensors


class Renewals:
    """Tells a step that the program writes by hand from gradients that only accumulate.

    Between two passes of one step nobody touches the gradients; between two steps they are renewed:
    taken away, or set to nothing in place. One parameter tells it for all.
    """

    def __init__(self) -> None:
        self.passes = 0
        self._leaf: Any = None
        self._version: int | None = None
        self._renewed = 0

    @property
    def certain(self) -> bool:
        """Whether each backward pass is a step of its own."""
        return self._renewed >= ENOUGH_RENEWALS or self.passes >= MOST_PASSES

    def before(self, loss: Any) -> None:
        """A pass begins."""
        if self.passes == 0:
            leaf = _find_leaf(loss)
            self._leaf = None if leaf is None else weakref.ref(leaf)
            return
        if self._version is None:
            return
        self._renewed = self._renewed + 1 if self._read_version() != self._version else 0

    def after(self) -> None:
        """The pass has returned."""
        self.passes += 1
        self._version = self._read_version()

    def _read_version(self) -> int | None:
        leaf = None if self._leaf is None else self._leaf()
        return None if leaf is None or leaf.grad is None else int(leaf.grad._version)


def in_optimizer_step() -> bool:
    """Whether this is called from inside of an optimizer's step, as by LBFGS's closure."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _OPTIMIZER_FILE:
            return True
        frame = frame.f_back
    return False


def _find_leaf(loss: Any) -> Any:
    """A parameter that the loss depends on; None where the graph does not show one soon."""
    left, looked = [getattr(loss, "grad_fn", None)], 0
    while left and looked < 10_000:
        node = left.pop()
        looked += 1
        if node is None:
            continue
        variable = getattr(node, "variable", None)
        if variable is not None:
            return variable
        left.extend(part for part, _ in node.next_functions)
    return None
