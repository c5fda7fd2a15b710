"""Moving models and batches to the step's device, where every tensor loses its numbers."""

from __future__ import annotations

import weakref
from functools import partial
from operator import setitem
from typing import Any, Callable, Iterator

import torch

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.fake_step.masks import read_mask
from trainload_worker.frameworks.torch.fake_step.tensors import FakeTensor, form_of
from trainload_worker.frameworks.torch.fake_step.trace import Tracer


def move(tracer: Tracer, model: Any) -> None:
    """The model on the step's device, every weight without numbers."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    if tracer.on_cuda:
        model.to(tracer.device)
    else:
        model._apply(tracer.dispatch.adopt)


def begin_anew(tracer: Tracer, model: Any) -> None:
    """A module that may have been trained, as if it had just been built on the host."""
    model.zero_grad(set_to_none=True)
    if not model.training:
        tracer.dispatch.notes.append("the module is in evaluation mode, and was traced in it")
    tensors = (*model.parameters(), *model.buffers())
    if any(tensor.device.type != "cpu" for tensor in tensors):
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        model._apply(_on_host)


def _on_host(tensor: Any) -> Any:
    """A tensor of the same form on the host; what is on a GPU cannot be reached from a fork."""
    if tensor.device.type == "cpu":
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def adopt_large(tracer: Tracer, model: Any, loss: Any) -> None:
    """On the host, those first that have no numbers from the start where a function builds them."""
    if tracer.on_cuda:
        return
    held = [value for value, _ in _held_by(tracer, loss) if isinstance(value, torch.Tensor)]
    for tensor in (*model.parameters(), *model.buffers(), *held):
        form = form_of(tensor.shape, tensor.stride(), tensor.dtype, 0, False)
        if tracer.dispatch.stays_fake(form):
            tracer.dispatch.adopt(tensor)


def adopt_batch(tracer: Tracer, loss: Any) -> None:
    """The tensors that a function holds, on the step's device before its first step."""
    for value, put in _held_by(tracer, loss):
        put(_adopted(tracer, value))


def _held_by(tracer: Tracer, loss: Any) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """What a function refers to by name, each with a way to put another in its place."""
    for cell in getattr(loss, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield value, partial(setattr, cell, "cell_contents")
    if tracer.handed is None:
        return
    names = getattr(loss, "__globals__", {})  # where a notebook has its batch
    for name in getattr(getattr(loss, "__code__", None), "co_names", ()):
        if name in names:
            yield names[name], partial(setitem, names, name)


def _adopted(tracer: Tracer, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.requires_grad:
        causal = value.causal if isinstance(value, FakeTensor) else read_mask(value)
        taken = tracer.dispatch.adopt(value)
        if isinstance(taken, FakeTensor):
            taken.causal = causal
        return taken
    if type(value) in (list, tuple):
        return type(value)(_adopted(tracer, one) for one in value)
    if type(value) is dict:
        return {key: _adopted(tracer, one) for key, one in value.items()}
    return value


def keep_identities() -> None:
    """Moving a model keeps what its parts share, and what its parameters are, on CUDA.

    Fake tensors take another way through torch: each is replaced by a new one.
    """
    plain = torch.nn.Module._apply
    depth = 0

    def apply(self: Any, convert: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if depth:
            return plain(self, convert, *args, **kwargs)
        if any(isinstance(module, torch.jit.ScriptModule) for module in self.modules()):
            raise FrameworkError(
                "scripted modules (torch.jit.script) cannot be traced: give the model itself"
            )
        # With the tensor itself: a module that several hold is moved again, what it had in
        # between is freed, and another tensor may get its `id`.
        known: dict[int, tuple[Any, Any]] = {}

        def once(tensor: Any) -> Any:
            if id(tensor) not in known:
                known[id(tensor)] = (tensor, convert(tensor))
            return known[id(tensor)][1]

        before = [(module, dict(module._parameters)) for module in self.modules()]
        depth += 1
        try:
            result = plain(self, once, *args, **kwargs)
        finally:
            depth -= 1
        if _tie_again(before):
            for reference in optimizers:
                _take_moved(reference())
        return result

    optimizers: list[Any] = []
    begin = torch.optim.Optimizer.__init__

    def remember(self: Any, *args: Any, **kwargs: Any) -> None:
        optimizers.append(weakref.ref(self))
        begin(self, *args, **kwargs)

    torch.optim.Optimizer.__init__ = remember
    torch.nn.Module._apply = apply


def _tie_again(before: list[tuple[Any, dict[str, Any]]]) -> bool:
    """Whether any parameter was replaced; one that modules share is again one."""
    first: dict[int, Any] = {}
    for module, held in before:
        for name, old in held.items():
            new = module._parameters.get(name)
            if old is None or new is None or old is new:
                continue
            module._parameters[name] = first.setdefault(id(old), new)
            old.moved_to = first[id(old)]
    return bool(first)


def _take_moved(optimizer: Any) -> None:
    for group in optimizer.param_groups if optimizer is not None else ():
        group["params"] = [getattr(p, "moved_to", p) for p in group["params"]]
