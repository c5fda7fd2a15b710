"""What a trial runs: a model, build function, script or past run as the keys of a run file."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.api.estimating.measured import STEPS_OF_BUILD
from trainload.api.estimating.sources import BuildSource, GraphSource, ScriptSource
from trainload.errors import UsageError
from trainload_worker.protocol.offers import DEFAULT_FRAMEWORK, find_offer

if TYPE_CHECKING:
    from trainload.api.estimating.sources import Source
    from trainload.recommend.here import Suggestion
    from trainload.workload import Optimizer

_FEWEST_STEPS = 5
"""Of an epoch: a fifth of the rows is for validation."""
_MOST_DATA_BYTES = 64 << 20
_FOREVER = 10**6
_FLOAT_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class TrialWork:
    """What is run in every cell, without its length."""

    keys: Mapping[str, Any]
    """Of a run file."""
    batch_size: int | None = None
    example_bytes: int = _FLOAT_BYTES
    arguments: tuple[str, ...] | None = None
    """Of a build function, before precision and steps: its file, name and batch."""
    rule: tuple[str, ...] = ()

    @property
    def has_length(self) -> bool:
        """Whether it can be told how many steps to do; a script alone knows its own."""
        return "script" not in self.keys or self.arguments is not None

    def workload(self, steps: int, factors: Collection[str] = ()) -> dict[str, Any]:
        """The keys of a run of so many steps, or of the whole script.

        `factors` are those that a study sets: a build function takes them as arguments.
        """
        keys = dict(self.keys)
        if self.arguments is not None:
            batch = "{batch_size}" if "batch_size" in factors else str(self.batch_size)
            precision = "{precision}" if "precision" in factors else "float32"
            keys["arguments"] = [*self.arguments, batch, precision, *self.rule, str(steps)]
        elif self.has_length:
            batch_size = self.batch_size or 1
            most = max(_FEWEST_STEPS, _MOST_DATA_BYTES // (self.example_bytes * batch_size))
            portions = min(max(math.ceil(1.25 * steps), _FEWEST_STEPS), most)
            # Enough for the doubled batch of a trial too.
            keys |= {"rows": max(10, 2 * portions * batch_size), "max_steps": steps}
        return keys


def find_trial_work(
    source: Source,
    *,
    options: Mapping[str, Any],
    batch_size: int | None,
    optimizer: Optimizer,
    recorded: Path | None = None,
    framework: str | None = None,
    python: str | None = None,
) -> TrialWork:
    """What a trial of this source runs; UsageError where nothing can be run from outside.

    `options` are those of a built-in model; of a past run they are read from its directory.
    """
    keys: dict[str, Any] = {"check_overhead": False, "layers": False}
    if python is not None:
        keys["python"] = python
    if framework is not None:
        keys["framework"] = framework
    if isinstance(source, ScriptSource):
        script = source.script
        arguments = [*script.arguments]
        return TrialWork(keys={**keys, "script": str(Path(script.path).resolve()),
                               "arguments": arguments})  # fmt: skip
    if isinstance(source, BuildSource):
        path, _, name = source.text.rpartition(":")
        return TrialWork(
            keys={**keys, "script": str(STEPS_OF_BUILD)},
            batch_size=batch_size,
            arguments=(str(Path(path).resolve()), name),
            rule=(optimizer.name, f"{optimizer.momentum:g}"),
        )
    model = source.model if isinstance(source, GraphSource) else None
    if recorded is not None:
        model, options = _recorded_model(recorded)
    if not isinstance(source, GraphSource) or model is None:
        raise UsageError(
            f"--try runs built-in models, build functions and scripts, not {source.title}; "
            "leave --try out, or put it into a function in a file, such as my.py:build"
        )
    told = {name: value for name, value in options.items() if value is not None}
    return TrialWork(
        keys={
            **keys,
            "model": model,
            **told,
            "data": "synthetic",
            "batch_size": batch_size,
            "epochs": _FOREVER,
            "validate": "never",
            "optimizer": optimizer.name,
            "momentum": optimizer.momentum,
        },
        batch_size=batch_size,
        example_bytes=_FLOAT_BYTES * max(1, math.prod(source.graph.input_shape)),
    )


def offered(suggestion: Suggestion, work: TrialWork) -> str | None:
    """Why a trial cannot be made of this work; None where it can, or where none is known."""
    trial = suggestion.trial
    if trial is None:
        return suggestion.not_tried
    name = work.keys.get("framework") or DEFAULT_FRAMEWORK
    offer = find_offer(name)
    script = "script" in work.keys
    if trial.factor == "loader" and script:
        return "the function makes its batch itself"
    if trial.factor == "loader" and offer.native_loader is None:
        return f"{name} has no loader of its own"
    if trial.factor == "precision" and not script:
        lacking = [one for one in _precisions(suggestion) if one not in offer.precisions]
        if lacking:
            return f"{name} does not train built-in models in {lacking[0]}"
    if trial.factor == "huge_pages" and name != DEFAULT_FRAMEWORK:
        return f"{name} does not read the variable"
    return None


def _precisions(suggestion: Suggestion) -> Sequence[str]:
    assert suggestion.trial is not None, "asked before"
    return [str(suggestion.trial.other.sets.get("precision"))]


def _recorded_model(path: Path) -> tuple[str | None, Mapping[str, Any]]:
    """The built-in model of a run and its options; None where it is none."""
    from trainload.record import load_manifest
    from trainload.workload import MODELS
    from trainload.workload.recorded import RecordedGraph

    workload = load_manifest(path).workload
    if not isinstance(workload, RecordedGraph) or workload.model not in MODELS:
        return None, {}
    return workload.model, workload.model_options
