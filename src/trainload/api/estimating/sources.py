"""What is estimated: model, graph, a user's function, script or module; starts nothing.

A source gives the same step again with another batch, precision or optimizer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import GraphError, UsageError, WorkloadError
from trainload.workload import LayerGraph

if TYPE_CHECKING:
    from trainload.api.in_process import HandedStep
    from trainload.estimate.counts.answer import StepChoice
    from trainload.run import BuildFunction
    from trainload.workload import ScriptWorkload, Workload
    from trainload.workload.zoo.models import Examples


@dataclass(frozen=True, kw_only=True)
class GraphSource:
    """A layer graph: a built-in model or a file."""

    graph: LayerGraph
    model: str | None
    """The name of a built-in one; None for a finished graph."""
    options: Any = None
    """The built-in one's options, checked."""

    @property
    def title(self) -> str:
        """What is trained."""
        return self.graph.name

    def step(self, choice: StepChoice, rows: int | None = None, **length: Any) -> Workload:
        """The step as a workload on data of the graph's own shape; `length` is the training's."""
        from trainload.workload import Seeds, Training, Workload
        from trainload.workload.data.synthetic import synthetic_data

        return Workload(
            model=self.model or self.graph.name,
            model_options={} if self.options is None else asdict(self.options),
            graph=self.graph,
            data=synthetic_data(self.graph, self._examples(), rows, 0.2),
            training=Training(
                batch_size=choice.examples,
                precision=choice.precision,
                optimizer=choice.optimizer,
                **length,
            ),
            seeds=Seeds(),
        )

    def _examples(self) -> Examples:
        from trainload.workload import find_model

        if self.model is not None:
            return find_model(self.model).examples
        if any(layer.kind == "embedding" for layer in self.graph.layers):
            return "tokens"
        shape = self.graph.input_shape
        return "images" if len(shape) == 3 else "features" if len(shape) == 1 else "sequences"


@dataclass(frozen=True, kw_only=True)
class BuildSource:
    """A function in the user's file."""

    text: str

    @property
    def title(self) -> str:
        """What is trained."""
        return self.text

    def step(self, choice: StepChoice) -> BuildFunction:
        """The function for one batch size."""
        from trainload.run import parse_build

        return parse_build(
            self.text,
            batch_size=choice.examples,
            precision=choice.precision,
            optimizer=choice.optimizer.name,
            learning_rate=choice.optimizer.learning_rate,
            momentum=choice.optimizer.momentum,
        )


@dataclass(frozen=True, kw_only=True)
class ScriptSource:
    """A script as it stands: its batch, precision and optimizer are its own."""

    script: ScriptWorkload

    @property
    def title(self) -> str:
        """What is trained."""
        return " ".join((Path(self.script.path).name, *self.script.arguments))

    def step(self, choice: StepChoice) -> ScriptWorkload:
        """The script, whatever was chosen."""
        del choice
        return self.script


@dataclass(frozen=True, kw_only=True)
class ModuleSource:
    """A torch module in this process and the function without arguments that gives its loss."""

    module: Any
    loss: Callable[[], Any]

    @property
    def title(self) -> str:
        """What is trained."""
        return type(self.module).__name__

    def step(self, choice: StepChoice) -> HandedStep:
        """The module as it stands; its batch is what the function holds."""
        from trainload.api.in_process import HandedStep

        return HandedStep(
            module=self.module,
            loss=self.loss,
            batch_size=choice.batch_size or 1,
            precision=choice.precision,
            optimizer=choice.optimizer,
        )


Source = GraphSource | BuildSource | ScriptSource | ModuleSource


def find_source(
    what: Any,
    *,
    loss: Callable[[], Any] | None,
    script: bool | None,
    arguments: Sequence[str],
    options: Mapping[str, Any],
) -> Source:
    """The source that is meant; UsageError or WorkloadError where it is none."""
    from trainload.workload import script_workload

    named = str(what) if isinstance(what, str | Path) else None
    if options and not (named and _is_model(named, script)):
        titles = ", ".join(options)
        raise UsageError(f"{titles}: only a built-in model takes options, not {_shown(what)}")
    if script if script is not None else named is not None and named.endswith(".py"):
        if named is None:
            raise UsageError(f"{_shown(what)} is no script: give its path")
        return ScriptSource(script=script_workload(named, arguments))
    if arguments:
        raise UsageError(f"{arguments[0]!r}: only a script takes arguments of its own")
    if named is None:
        return _held(what, loss)
    if loss is not None:
        raise UsageError(f"loss is for a torch module; {named} has its own")
    if ".py:" in named:
        return _build(named)
    if named.endswith(".json"):
        return GraphSource(graph=_load_graph(Path(named)), model=None)
    return _model(named, options)


def _is_model(named: str, script: bool | None) -> bool:
    return not script and ".py:" not in named and not named.endswith((".py", ".json"))


def _held(what: Any, loss: Callable[[], Any] | None) -> GraphSource | ModuleSource:
    """A graph or a module that was handed over as such."""
    if isinstance(what, LayerGraph):
        if loss is not None:
            raise UsageError("loss is for a torch module; a layer graph has its own")
        return GraphSource(graph=what, model=None)
    torch = sys.modules.get("torch")  # a module cannot be here without it
    if torch is None or not isinstance(what, torch.nn.Module):
        raise UsageError(
            f"{_shown(what)} cannot be estimated: give a model's name, the path of a graph or "
            "script, my.py:build, a LayerGraph, or a torch module with loss=…"
        )
    if not callable(loss):
        raise UsageError(
            "a torch module needs loss=…, a function without arguments that gives the loss of "
            "one batch, such as lambda: cross_entropy(model(rows), labels)"
        )
    return ModuleSource(module=what, loss=loss)


def _build(named: str) -> BuildSource:
    from trainload.run import parse_build

    parse_build(named, batch_size=1)
    return BuildSource(text=named)


def _model(name: str, options: Mapping[str, Any]) -> GraphSource:
    from trainload.checked import build_checked
    from trainload.workload import build_model, find_model

    chosen = build_checked(find_model(name).options, options, name)
    return GraphSource(graph=build_model(name, chosen), model=name, options=chosen)


def _shown(what: Any) -> str:
    return str(what) if isinstance(what, str | Path) else f"a {type(what).__name__}"


def _load_graph(path: Path) -> LayerGraph:
    from trainload.workload import graph_from_json

    try:
        return graph_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise WorkloadError(f"cannot read the graph {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{path} is no JSON: {error}") from None
    except GraphError as error:
        raise WorkloadError(f"{path}: {error}") from None
