"""Moving models and batches to the step's device, where every tensor loses its numbers."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import torch

from trainload_worker.frameworks.torch.fake_step.trace import Tracer


def move(tracer: Tracer, model: Any) -> None:
    """The model on the step's device, every weight without numbers."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    if tracer.on_cuda:
        model.to(tracer.device)
    else:
        model._apply(tracer.dispatch.adopt)


def adopt_batch(tracer: Tracer, loss: Any) -> None:
    """The tensors that a function holds, on the step's device before its first step."""
    for cell in getattr(loss, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not filled yet
            cell.cell_contents = _adopted(tracer, cell.cell_contents)


def _adopted(tracer: Tracer, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not value.requires_grad:
        return tracer.dispatch.adopt(value)
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
        known: dict[int, Any] = {}

        def once(tensor: Any) -> Any:
            if id(tensor) not in known:
                known[id(tensor)] = convert(tensor)
            return known[id(tensor)]

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
