"""Where a traced step comes from: a layer graph, a user's build function, or a user's script.

Runs the user's code under the tracer; what happens in it is noted elsewhere.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from typing import Any

import torch

from trainload_worker.data.dataset import PIXEL_SCALE, PIXEL_SHIFT
from trainload_worker.errors import WorkerProblem
from trainload_worker.frameworks.torch.backend import (
    FP16_ON_CPU,
    HALF_TYPES,
    batch_loss,
    step_scaled,
)
from trainload_worker.frameworks.torch.fake_step.masks import answer_for_masks
from trainload_worker.frameworks.torch.fake_step.moving import (
    adopt_batch,
    adopt_large,
    begin_anew,
    keep_identities,
    move,
)
from trainload_worker.frameworks.torch.fake_step.scripts import step_without_asking, trace_script
from trainload_worker.frameworks.torch.fake_step.trace import TraceProblem, Tracer, explain
from trainload_worker.frameworks.torch.graph import GraphModule
from trainload_worker.frameworks.torch.optimizers import build_optimizer
from trainload_worker.protocol.data import ImageData, NpyData, SyntheticData
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.spec import BuildSpec, ScriptSpec
from trainload_worker.protocol.training import Training

_TYPES = {"i8": torch.int64, "i4": torch.int32, "f4": torch.float32, "u1": torch.uint8}


def run_source(tracer: Tracer) -> None:
    """Runs as many steps of the specification's source as it asks for."""
    source = tracer.spec.source
    keep_identities()
    answer_for_masks(tracer.dispatch.notes)
    if isinstance(source, ScriptSpec):
        trace_script(tracer, source)
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
    scaler = _scaler(tracer, training.precision)
    for _ in range(tracer.spec.iterations):
        _run_step(tracer, model, loss, optimizer, training, scaler)


def _run_step(
    tracer: Tracer, model: Any, loss: Any, optimizer: Any, training: Any, scaler: Any
) -> None:
    """One step as the torch backend does it; its tensors are freed when it returns."""
    tracer.begin_step()
    optimizer.zero_grad(set_to_none=True)
    with _autocast(tracer, training.precision):
        found = _checked(loss)
    tracer.begin_backward()
    try:
        _go_back(tracer, found, optimizer, model, scaler)
    except Exception as error:
        raise _said(error, "the backward pass or the update") from error
    tracer.end_step(optimizer)


def _go_back(tracer: Tracer, loss: Any, optimizer: Any, model: Any, scaler: Any) -> None:
    """The backward pass and the update."""
    if scaler is not None:
        step_scaled(scaler, loss, optimizer, lambda: tracer.begin_update(model.parameters()))
        return
    loss.backward()
    tracer.begin_update(model.parameters())
    optimizer.step()


def _autocast(tracer: Tracer, precision: str) -> Any:
    half = HALF_TYPES.get(precision)
    if half is None:
        return contextlib.nullcontext()
    return torch.autocast(tracer.device.type, half)


def _scaler(tracer: Tracer, precision: str) -> Any:
    """The gradient scaler of fp16, which takes every gradient for finite; None elsewhere."""
    if precision != "fp16":
        return None
    if not tracer.on_cuda:
        raise TraceProblem(FP16_ON_CPU)
    step_without_asking()
    return torch.amp.GradScaler(tracer.device.type)


def _checked(loss: Any) -> Any:
    """The loss of the user's function; TraceProblem where it is no scalar with a gradient."""
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
    move(tracer, model)
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
        begin_anew(tracer, model)
        adopt_large(tracer, model, loss)
    move(tracer, model)
    adopt_batch(tracer, loss)
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
