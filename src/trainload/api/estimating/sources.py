"""What `trainload estimate` is about: model, graph, a user's function or script; starts nothing.

A source gives the same step again with another batch, precision or optimizer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainload.run import BuildFunction
    from trainload.workload import LayerGraph, Optimizer, ScriptWorkload, Workload
    from trainload.workload.spec import Precision
    from trainload.workload.zoo.models import Examples


@dataclass(frozen=True, kw_only=True)
class StepChoice:
    """How the step is done."""

    batch_size: int
    precision: Precision
    optimizer: Optimizer


@dataclass(frozen=True, kw_only=True)
class GraphSource:
    """A layer graph: a built-in model or a file."""

    graph: LayerGraph
    model: str | None
    """The name of a built-in one; None for a file."""
    words: tuple[str, ...] = ()
    """`name=value` options of the built-in model."""

    @property
    def title(self) -> str:
        """What is trained."""
        return self.graph.name

    def step(self, choice: StepChoice) -> Workload:
        """The step as a workload on data of the graph's own shape."""
        from trainload.workload import Seeds, Training, Workload
        from trainload.workload.data.synthetic import synthetic_data

        return Workload(
            model=self.graph.name,
            model_options={},
            graph=self.graph,
            data=synthetic_data(self.graph, self._examples(), None, 0.2),
            training=Training(
                batch_size=choice.batch_size,
                precision=choice.precision,
                optimizer=choice.optimizer,
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
            batch_size=choice.batch_size,
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


Source = GraphSource | BuildSource | ScriptSource


def read_source(
    model: str,
    classes: int | None,
    input_shape: str | None,
    words: Sequence[str],
) -> Source:
    """The model, graph or function that was named; UsageError or WorkloadError where it is none."""
    from trainload.errors import UsageError
    from trainload.workload import build_model, input_words, parse_options, parse_words

    chosen = classes is not None or input_shape is not None or bool(words)
    if ".py:" in model or model.endswith(".py"):
        _check_build(model, chosen)
        return BuildSource(text=model)
    if model.endswith(".json"):
        if chosen:
            raise UsageError(
                f"{model} is a finished graph: --classes, --input and --set change none"
            )
        return GraphSource(graph=_load_graph(Path(model)), model=None)
    options = parse_words(words)
    if classes is not None:
        options["classes"] = str(classes)
    if input_shape is not None:
        options.update(input_words(model, input_shape))
    return GraphSource(
        graph=build_model(model, parse_options(model, options)),
        model=model,
        words=tuple(f"{name}={value}" for name, value in options.items()),
    )


def _check_build(model: str, chosen: bool) -> None:
    from trainload.errors import UsageError
    from trainload.run import parse_build

    if model.endswith(".py"):
        raise UsageError(
            f"{model}: name a function in it, such as {Path(model).name}:build, "
            f"or estimate the script as it stands: --script {model}"
        )
    parse_build(model, batch_size=1)
    if chosen:
        raise UsageError(f"--classes, --input and --set are for built-in models, not for {model}")


def _load_graph(path: Path) -> LayerGraph:
    from trainload.errors import GraphError, WorkloadError
    from trainload.workload import graph_from_json

    try:
        return graph_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise WorkloadError(f"cannot read the graph {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{path} is no JSON: {error}") from None
    except GraphError as error:
        raise WorkloadError(f"{path}: {error}") from None
