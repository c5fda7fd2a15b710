"""Where a traced step comes from: a layer graph, a user's build function, or a user's script.

Runs the user's code under the tracer; what happens in it is noted elsewhere.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import weakref
from functools import partial
from operator import setitem
from typing import Any, Callable, Iterator

import torch

from trainload_worker.data.dataset import PIXEL_SCALE, PIXEL_SHIFT
from trainload_worker.errors import ScriptError, WorkerProblem
from trainload_worker.frameworks.torch.backend import batch_loss, build_optimizer
from trainload_worker.frameworks.torch.fake_step.tensors import form_of
from trainload_worker.frameworks.torch.fake_step.trace import (
    MEASURE,
    Enough,
    TraceProblem,
    Tracer,
    explain,
)
from trainload_worker.frameworks.torch.graph import GraphModule
from trainload_worker.process.script import run_script
from trainload_worker.protocol.data import ImageData, NpyData, SyntheticData
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.spec import BuildSpec, ScriptSpec
from trainload_worker.protocol.training import Training

_TYPES = {"i8": torch.int64, "i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}


def run_source(tracer: Tracer) -> None:
    """Runs as many steps of the specification's source as it asks for."""
    source = tracer.spec.source
    _keep_identities()
    if isinstance(source, ScriptSpec):
        _run_script(tracer, source)
        return
    training = tracer.spec.training
    assert training is not None, "a graph and a build come with their training"
    if isinstance(source, BuildSpec):
        model, loss = _build_users(tracer, source, training)
    else:
        model, loss = _build_graph(tracer, source, training)
    tracer.precision = training.precision
    tracer.batch_size = training.batch_size
    tracer.optimizer_name = training.optimizer.name
    if tracer.spec.checkpoint_blocks:
        _checkpoint(tracer, model)
    _run_steps(tracer, model, loss, training)


def _checkpoint(tracer: Tracer, model: Any) -> None:
    from trainload_worker.frameworks.torch.fake_step.recomputed import checkpoint_blocks

    blocks = checkpoint_blocks(model)
    if blocks is None:
        raise TraceProblem("the model has no row of blocks that could be checkpointed")
    tracer.dispatch.notes.append(f"checkpointed: {blocks}")


def _run_steps(tracer: Tracer, model: Any, loss: Any, training: Training) -> None:
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise TraceProblem("nothing in the model requires a gradient, so there is no step to trace")
    optimizer = build_optimizer(training.optimizer, model)
    tracer.layers.know(model)
    tracer.begin([model])
    for _ in range(tracer.spec.iterations):
        _run_step(tracer, model, loss, optimizer, training)


def _run_step(tracer: Tracer, model: Any, loss: Any, optimizer: Any, training: Any) -> None:
    """As the torch backend steps; what it holds goes with the function."""
    tracer.begin_step()
    optimizer.zero_grad(set_to_none=True)
    with _autocast(tracer, training.precision):
        found = _checked(loss)
    tracer.begin_backward()
    try:
        found.backward()
    except Exception as error:
        raise _said(error, "the backward pass") from error
    tracer.begin_update(model.parameters())
    optimizer.step()
    tracer.end_step(optimizer)


def _autocast(tracer: Tracer, precision: str) -> Any:
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(tracer.device.type, torch.bfloat16)


def _checked(loss: Any) -> Any:
    """The loss that the user's function gives, if it is one."""
    try:
        found = loss()
    except Exception as error:
        raise _said(error, "the forward pass") from error
    if not isinstance(found, torch.Tensor):
        kind = type(found).__name__
        raise TraceProblem(f"the loss function gives {_article(kind)}, not a tensor with the loss")
    if found.numel() != 1:
        raise TraceProblem(
            f"the loss function gives a tensor of shape {tuple(found.shape)}, not one number; "
            "take its mean or sum"
        )
    if not found.requires_grad:
        raise TraceProblem("the loss does not depend on anything that requires a gradient")
    return found


def _article(kind: str) -> str:
    return "nothing" if kind == "NoneType" else f"a {kind}"


def _said(error: BaseException, what: str) -> BaseException:
    return error if isinstance(error, WorkerProblem) else explain(error, what)


# A layer graph, as a run would train it.


def _build_graph(tracer: Tracer, graph: GraphSpec, training: Training) -> tuple[Any, Any]:
    model = GraphModule(graph)
    _move(tracer, model)
    entry = next(layer for layer in graph.layers if layer.kind == "input")
    kind, stream = _row_type(tracer.spec.data)
    shape = (training.batch_size, *entry.output_shape)
    labels = shape if stream else shape[:1]

    def loss() -> Any:
        rows = tracer.dispatch.fresh(shape, kind, "input")
        targets = tracer.dispatch.fresh(labels, torch.int64, "input")
        if kind is torch.uint8:
            rows = rows.to(torch.float32).sub_(PIXEL_SHIFT).mul_(PIXEL_SCALE)
        return batch_loss(model(rows), targets)

    model.train()
    return model, loss


def _row_type(data: Any) -> tuple[Any, bool]:
    """The type of a row's values, and whether each of them has a target."""
    if isinstance(data, ImageData):
        return torch.uint8, False
    if isinstance(data, SyntheticData):
        kinds = {"images": torch.uint8, "vectors": torch.float32}
        return kinds.get(data.form, torch.int64), data.form == "token_stream"
    if isinstance(data, NpyData):
        return _TYPES.get(data.features.dtype[-2:], torch.float32), data.labels is None
    return torch.float32, False


# A user's function.


def _build_users(tracer: Tracer, source: BuildSpec, training: Training) -> tuple[Any, Any]:
    model, loss = tracer.handed or _call_build(source, training)
    if not isinstance(model, torch.nn.Module) or not callable(loss):
        raise TraceProblem(
            f"{source.function} must return a torch module and a function without arguments, "
            f"not {_article(type(model).__name__)} and {_article(type(loss).__name__)}"
        )
    if tracer.handed is not None:
        _begin_anew(tracer, model)
        _adopt_large(tracer, model, loss)
    _move(tracer, model)
    _adopt_batch(tracer, loss)
    return model, loss


def _call_build(source: BuildSpec, training: Training) -> tuple[Any, Any]:
    build = _load_function(source)
    try:
        answer = build(training.batch_size)
    except Exception as error:
        raise _said(error, f"{source.function}({training.batch_size})") from error
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise TraceProblem(
            f"{source.function} must return the module and a function that gives the loss, "
            f"not {_article(type(answer).__name__)}"
        )
    return answer


def _begin_anew(tracer: Tracer, model: Any) -> None:
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


def _move(tracer: Tracer, model: Any) -> None:
    """The model on the step's device, every weight without numbers."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    if tracer.on_cuda:
        model.to(tracer.device)
    else:
        model._apply(tracer.dispatch.adopt)


def _adopt_large(tracer: Tracer, model: Any, loss: Any) -> None:
    """On the host, those first that have no numbers from the start where a function builds them."""
    if tracer.on_cuda:
        return
    held = [value for value, _ in _held_by(tracer, loss) if isinstance(value, torch.Tensor)]
    for tensor in (*model.parameters(), *model.buffers(), *held):
        form = form_of(tensor.shape, tensor.stride(), tensor.dtype, 0, False)
        if tracer.dispatch.stays_fake(form):
            tracer.dispatch.adopt(tensor)


def _adopt_batch(tracer: Tracer, loss: Any) -> None:
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
        return tracer.dispatch.adopt(value)
    if type(value) in (list, tuple):
        return type(value)(_adopted(tracer, one) for one in value)
    if type(value) is dict:
        return {key: _adopted(tracer, one) for key, one in value.items()}
    return value


def _load_function(source: BuildSpec) -> Any:
    name = os.path.basename(source.path)
    if not os.path.isfile(source.path):
        raise TraceProblem(f"{source.path}: no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(source.path)))
    module_name = os.path.splitext(name)[0]
    spec = importlib.util.spec_from_file_location(module_name, source.path)
    if spec is None or spec.loader is None:
        raise TraceProblem(f"{source.path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise explain(error, name) from error
    function = getattr(module, source.function, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        own = [key for key in known if getattr(module, key).__module__ == module_name]
        there = f"; it has {', '.join(own[:8])}" if own else ""
        raise TraceProblem(f"{name} has no function {source.function}{there}")
    return function


# A user's script, as it stands.


def _run_script(tracer: Tracer, source: ScriptSpec) -> None:
    if not os.path.isfile(source.path):
        raise TraceProblem(f"{source.path}: no such file")
    watch = _ScriptWatch(tracer)
    watch.attach()
    name = os.path.basename(source.path)
    try:
        run_script(source)
    except ScriptError as error:
        if not tracer.steps:
            raise TraceProblem(f"{name}: {error} before its first optimizer step") from error
    except Exception as error:
        if not isinstance(error, WorkerProblem):
            raise explain(error, name) from error
        raise
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
        """Stands in for what a script would do with numbers, processes and files."""
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
        torch.compile = lambda model=None, **_kwargs: model if model is not None else (lambda m: m)
        torch.nn.Module.compile = lambda *_args, **_kwargs: None
        _keep_loaders_here()
        torch.isfinite = _finite
        torch.Tensor.isfinite = _finite
        torch.amp.GradScaler._maybe_opt_step = lambda _self, optimizer, _state, *args, **kwargs: (
            optimizer.step(*args, **kwargs)
        )
        self._tracer.dispatch.check = None

    def begin_backward(self) -> None:
        """The script goes back for the first or another time."""
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


def _keep_identities() -> None:
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
