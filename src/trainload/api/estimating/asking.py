"""The estimate of a training step as one function; asks the rooms and prints nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, overload

from trainload.api.estimating.document import record_estimate
from trainload.api.estimating.measured import measure_steps
from trainload.api.estimating.memory import KnownTraces, MemoryQuestion, answer_memory
from trainload.api.estimating.ranked import Estimates, rank_estimates
from trainload.api.estimating.result import Estimate
from trainload.api.estimating.sources import (
    GraphSource,
    ModuleSource,
    ScriptSource,
    Source,
    find_source,
)
from trainload.api.estimating.study import choose_optimizer
from trainload.checked import Bounds, check_value, suggest
from trainload.errors import EnvironmentProblem, RecordError, UsageError
from trainload.estimate.counts.answer import Cells, StepChoice, count_graph, study_graph
from trainload.estimate.memory.device import Target, find_device_memory
from trainload.hardware.catalogue import Device, find_device
from trainload.record.estimates import keep_estimate
from trainload.workload import Optimizer
from trainload.workload.identity import workload_identity
from trainload_worker.protocol.training import HALVES, OptimizerName, Precision

if TYPE_CHECKING:
    from trainload.analyse.peaks import MeasuredSteps
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.workload import LayerGraph, ScriptWorkload, Workload

LIMIT_S = 120.0
COUNTS_ALONE = "no step was traced: --counts"
_PRECISIONS = ("float32", *HALVES)
_Batch = Annotated[int, Bounds(low=1, high=10**8)]


@overload
def estimate(
    what: str | Path | LayerGraph | Any,
    *,
    batch_size: int | None = None,
    device: str | Path | Device | None = None,
    precision: Precision = "float32",
    optimizer: OptimizerName | Optimizer = "adam",
    **options: Any,
) -> Estimate: ...


@overload
def estimate(
    what: str | Path | LayerGraph | Any,
    *,
    batch_size: int | None = None,
    device: list[Any] | tuple[Any, ...],
    precision: Precision = "float32",
    optimizer: OptimizerName | Optimizer = "adam",
    **options: Any,
) -> Estimates: ...


def estimate(
    what: str | Path | LayerGraph | Any,
    *,
    batch_size: int | None = None,
    device: str | Path | Device | list[Any] | tuple[Any, ...] | None = None,
    target: Target | None = None,
    precision: Precision = "float32",
    optimizer: OptimizerName | Optimizer = "adam",
    momentum: float = 0.9,
    loss: Callable[[], Any] | None = None,
    script: bool | None = None,
    arguments: Sequence[str] = (),
    what_if: bool | None = None,
    counts_only: bool = False,
    measure: bool = False,
    samples: int | None = None,
    variables: int | None = None,
    cells: Cells | None = None,
    python: str | None = None,
    limit_s: float = LIMIT_S,
    out: str | os.PathLike[str] = "runs",
    show: Callable[[str], None] | None = None,
    **model_options: Any,
) -> Estimate | Estimates:
    """Whether a training step fits a device, why, and what would help; no GPU is needed.

    `what` is a built-in model's name (with its options as further names, such as `classes=10`), a
    `LayerGraph` or the path of one as JSON, `"my.py:build"`, the path of a torch script
    (`script=True` where it does not end in .py), which gets `arguments`; or a torch module
    together with `loss`, a function without arguments that gives the loss of one batch, such as
    `lambda: cross_entropy(model(rows), labels)`. A module is traced as it stands in a fork of
    this process and stays as it is.

    - `batch_size`: 1 unless told. Of a module it is what `loss` holds, and here only said.
    - `device`: of the catalogue, or the path of one as JSON; a list of them gives `Estimates`,
      best device first; `target`: whose choices the step makes, default what the device is.
    - `optimizer` with `momentum` (of sgd), or an `Optimizer`.
    - `what_if`: whether to try what would help; None: where the step does not surely fit the one
      device that is asked about.
    - `counts_only`: counts and bounds, nothing is traced.
    - `measure`: a few real steps on this machine, kept as a run in `out`, instead of a trace.
    - `samples`, `variables`, `cells`: for study R's expressions.
    - `python`: the interpreter that has torch, default its environment; `limit_s`: seconds that
      tracing one step may take; `show`: is told how far it is, in lines without a newline.

    TrainloadError where something cannot be meant or the user's own code cannot be traced. What
    is missing for a model of ours is said in the answer. The estimate of a model, graph or script
    is kept, for the scorecard of the day it is run.
    """
    rule = choose_optimizer(optimizer, momentum)
    source = find_source(what, loss=loss, script=script, arguments=arguments, options=model_options)
    choice = StepChoice(
        batch_size=_batch(batch_size, source), precision=_precision(precision), optimizer=rule
    )
    several = isinstance(device, list | tuple)
    devices = _devices(list(device) if isinstance(device, list | tuple) else [device])
    if several and measure:
        raise UsageError("--measure runs on this machine: name no devices, or one")
    known = KnownTraces()
    found = []
    for one in devices:
        counts = None
        if isinstance(source, GraphSource):
            study = study_graph(
                source.graph, rule, samples=samples, variables=variables, cells=cells
            )
            counts = count_graph(source.graph, choice, one, study)
        question = MemoryQuestion(
            source=source,
            choice=choice,
            device=one,
            memory=find_device_memory(one, _target(target)),
            python=python,
            limit_s=limit_s,
            what_if=what_if or False if several else what_if,
            show=show,
            known=known,
        )
        answer, measured = _answer(question, counts_only=counts_only, measure=measure, out=out)
        done = Estimate(
            title=source.title,
            choice=None if isinstance(source, ScriptSource) else choice,
            device=one,
            memory=answer,
            counts=counts,
            measured=measured,
        )
        _keep(done, source)
        found.append(done)
    return rank_estimates(found) if several else found[0]


def _devices(asked: Sequence[str | Path | Device | None]) -> list[Device | None]:
    """Those of the catalogue or of files, each once; UsageError where there is none."""
    if not asked:
        raise UsageError("device=[]: name at least one device; trainload devices lists them")
    found = [one if isinstance(one, Device | None) else find_device(str(one)) for one in asked]
    return list({None if one is None else one.name: one for one in found}.values())


def _answer(
    question: MemoryQuestion, *, counts_only: bool, measure: bool, out: str | os.PathLike[str]
) -> tuple[MemoryAnswer, MeasuredSteps | None]:
    source = question.source
    if counts_only:
        if not isinstance(source, GraphSource):
            raise UsageError(
                f"--counts is for models and layer graphs; {source.title} has to be traced"
            )
        return question.answer_without(COUNTS_ALONE), None
    if isinstance(source, ModuleSource):
        if question.python is not None or measure:
            raise UsageError(
                f"the module {source.title} is in this process and goes to no other interpreter; "
                "put it into a function in a file, such as my.py:build"
            )
        return answer_memory(question), None
    from trainload.run import ready_interpreter

    try:
        python = ready_interpreter("torch", question.python)
    except EnvironmentProblem as error:
        # The user's own code needs torch for anything at all, and a named interpreter was meant.
        if question.python is not None or not isinstance(source, GraphSource):
            raise
        return question.answer_without(str(error)), None
    if not measure:
        return answer_memory(replace(question, python=python)), None
    measured = measure_steps(
        source,
        question.choice,
        python=python,
        limit_s=question.limit_s,
        out=out,
        show=question.show,
    )
    return question.answer_without("measured instead"), measured


def _batch(batch_size: int | None, source: Source) -> int | None:
    if batch_size is None:
        return None if isinstance(source, ModuleSource) else 1
    found: int = check_value(_Batch, batch_size, "batch_size")
    return found


def _precision(text: Precision) -> Precision:
    if text not in _PRECISIONS:
        raise UsageError(f"unknown precision {text!r}{suggest(str(text), _PRECISIONS)}")
    return text


def _target(text: Target | None) -> Target | None:
    if text not in (None, "cuda", "cpu"):
        raise UsageError(f"--target {text}: must be cuda or cpu")
    return text


def _keep(done: Estimate, source: Source) -> None:
    """Keep what was traced until its workload is run; that a disk refuses is no reason to fail."""
    memory = done.memory
    if memory.estimate is None and memory.ram is None:
        return
    if isinstance(source, ScriptSource):
        step: Workload | ScriptWorkload = source.script
    elif isinstance(source, GraphSource) and done.choice is not None:
        step = source.step(done.choice)
    else:
        return  # no run can be known to be of the same function or module
    name = done.device.name if done.device is not None else None
    identity = workload_identity(step, target=memory.target, device=name)
    with suppress(RecordError):
        keep_estimate(identity, record_estimate(done))
