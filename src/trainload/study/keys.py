"""What one run may be told in a file: the keys of `trainload run` beside those of model and data.

The same mapping is a run file, the workload of a study and, with its levels set in, a cell.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any

from trainload.workload import MODELS, looks_like_script, settable_names
from trainload_worker.protocol.checked import Bounds, suggest


@dataclass(frozen=True, kw_only=True)
class RunKeys:
    """Keys that say how something is run, whatever is trained."""

    model: str | None = None
    """A built-in model; `trainload models` lists them."""
    script: str | None = None
    """The path of a torch script, in place of a model."""
    arguments: tuple[str, ...] = ()
    """The script's own; `{lr}` stands for the level of the factor lr."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the training process."""
    framework: str | None = None
    """torch, tensorflow, jax or mxnet."""
    setting: str | None = None
    """Cores and accelerators: cpu0-3+gpu0, all, half, one, or a cluster's name such as big+gpu0."""
    threads: Annotated[int, Bounds(low=1, high=4096)] | None = None
    """Threads of the framework; default the cores."""
    seed: Annotated[int, Bounds(low=0, high=2**31 - 1)] = 0
    """Seed of data, split, order and weights."""
    resume: str | None = None
    """A run directory or checkpoint to continue."""
    save: bool = False
    """Whether the model is saved into the run directory."""
    save_every: Annotated[int, Bounds(low=1)] | None = None
    """Save it after every so many epochs too."""
    layers: bool | None = None
    """Trace a few steps layer by layer; default for scripts."""
    layer_budget: Annotated[float, Bounds(above=0, below=1)] = 0.03
    """Share of the training time that tracing layers may cost."""
    processes: Annotated[int, Bounds(low=1, high=64)] = 1
    """Processes that train together."""
    rate_hz: Annotated[float, Bounds(low=1, high=100)] = 10.0
    """Samples a second."""
    timeout_s: Annotated[float, Bounds(above=0)] | None = None
    """Seconds after which the run is ended."""
    check_overhead: bool = True
    """Measure the sampler's own cost by short pauses in sampling."""
    python: str | None = None
    """Interpreter that has the framework; `trainload env` makes them."""
    resources: Mapping[str, Annotated[float, Bounds(above=0)]] = field(default_factory=dict)
    """What a machine must have for it where a study runs on many, such as {board: 1}."""
    tegrastats: str | None = None
    """The tegrastats program, or a file of its lines."""
    fake: Mapping[str, Any] = field(default_factory=dict)
    """Options of the framework for tests."""


RUN_KEYS = tuple(spec.name for spec in fields(RunKeys))


@cache
def run_hints() -> Mapping[str, Any]:
    """The type of each key of RunKeys."""
    return typing.get_type_hints(RunKeys, include_extras=True)


@cache
def model_hints(model: str) -> Mapping[str, Any]:
    """The type of each key of a model, its training and its data."""
    return {
        name: typing.get_type_hints(cls, include_extras=True)[spec]
        for name, (cls, spec) in settable_names(model).items()
    }


@cache
def all_hints() -> Mapping[str, Any]:
    """Every key of any model with its type; that of the first model where they differ."""
    found: dict[str, Any] = {}
    for model in MODELS:
        for name, hint in model_hints(model).items():
            found.setdefault(name, hint)
    return {**found, **run_hints()}


def known_hints(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys that may stand beside the model or script of these values."""
    model = values.get("model")
    if isinstance(model, str) and model in MODELS:
        return {**model_hints(model), **run_hints()}
    if values.get("script") is not None:
        return run_hints()
    return all_hints()


def complain_unknown(name: str, values: Mapping[str, Any]) -> str:
    """What is wrong with a key that does not exist there."""
    known = known_hints(values)
    if values.get("script") is not None and name in all_hints():
        return "is for the built-in models; a script takes it in `arguments`"
    return f"no such key{suggest(name, known)}"


def run_keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as `trainload.run` takes them: `what` for model or script, the rest by name."""
    apart = ("model", "script", "resources")
    kept = {name: value for name, value in values.items() if name not in apart}
    what = values.get("script") or values.get("model")
    if isinstance(what, str) and values.get("script") and not looks_like_script(what):
        what = f"./{what}"
    return {"what": what, **kept}
