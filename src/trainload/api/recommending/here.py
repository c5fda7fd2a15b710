"""Suggestions for this machine: reads it, traces the step, asks a past run; prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.api.estimating.asking import LIMIT_S
from trainload.api.estimating.sources import find_source
from trainload.api.estimating.study import choose_optimizer
from trainload.api.predicting.predictors import check_parts
from trainload.api.predicting.recorded import find_recorded
from trainload.api.recommending.asking import interpreter_of
from trainload.api.recommending.candidates import find_candidates
from trainload.errors import TrainloadError
from trainload.hardware.clusters import read_clusters
from trainload.hardware.inventory import Machine, read_machine
from trainload.hardware.surroundings import Surroundings, read_surroundings
from trainload.recommend.here import HereFacts, PastRun, Suggestion, suggest_here
from trainload.recommend.types import Plan

if TYPE_CHECKING:
    from trainload.workload import Optimizer
    from trainload_worker.protocol.training import OptimizerName

LARGER = (1, 2, 4)
"""Times the batch asked for that are predicted on an accelerator."""


@dataclass(frozen=True, kw_only=True, repr=False)
class HereAdvice:
    """Suggestions for one training on this machine."""

    title: str
    batch_size: int | None
    machine: str
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload recommend --here --json`."""
        return {
            "format": 1,
            "what": self.title,
            "batch_size": self.batch_size,
            "machine": self.machine,
            "suggestions": [asdict(one) for one in self.suggestions],
            "notes": list(self.notes),
        }

    def to_text(self) -> str:
        """What `trainload recommend --here` prints."""
        from trainload.report.recommend.here import render_here

        return render_here(self)


def recommend_here(
    what: str | Path | Any,
    *,
    batch_size: int | None = None,
    optimizer: OptimizerName | Optimizer | None = None,
    momentum: float = 0.9,
    script: bool | None = None,
    arguments: Sequence[str] = (),
    python: str | None = None,
    limit_s: float = LIMIT_S,
    show: Callable[[str], None] | None = None,
    machine: Machine | None = None,
    surroundings: Surroundings | None = None,
    **model_options: Any,
) -> HereAdvice:
    """How to set a training on this machine, each suggestion with its gain where it is known.

    `what` is what `recommend` takes; a run directory also tells what that run waited for.
    `machine` and `surroundings` stand in for this one's. TrainloadError where something cannot be
    meant; a step that cannot be traced leaves its figures missing, with a note.
    """
    from trainload.api.recommending.steps import Steps

    check_parts("recommendations")
    machine = machine or read_machine()
    around = surroundings or read_surroundings(Path.cwd())
    recorded = find_recorded(what)
    if recorded is not None:
        source: Any = recorded.source
        batch_size = batch_size or recorded.batch_size
        optimizer = optimizer or recorded.optimizer
    else:
        source = find_source(
            what, loss=None, script=script, arguments=arguments, options=model_options
        )
    steps = Steps(
        source,
        choose_optimizer(optimizer or "adam", momentum),
        batch_size=batch_size,
        python=interpreter_of(source, python),
        limit_s=limit_s,
        show=show,
    )
    notes: list[str] = []
    ways: tuple[Plan, ...] = ()
    needed = None
    try:
        if machine.accelerators:
            ways = _ways(steps, machine, batch_size or 32)
        else:
            needed = steps.ram(("cpu", "float32", False), batch_size or 32).high_bytes
    except TrainloadError as error:
        notes.append(f"the step could not be traced: {error}")
    limits = [one for one in (machine.memory_total_bytes, machine.memory_limit_bytes) if one]
    facts = HereFacts(
        allowed_cores=len(machine.allowed_cores),
        physical_cores=machine.physical_cores,
        logical_cores=machine.logical_cores,
        quota_cores=machine.cpu_quota_cores,
        clusters={name: len(cores) for name, cores in read_clusters().items()},
        memory_bytes=min(limits) if limits else None,
        swap_bytes=machine.swap_total_bytes,
        huge_pages=around.huge_pages,
        bf16_units=around.bf16_units,
        disk_free_bytes=around.disk_free_bytes,
        disk_rotates=around.disk_rotates,
        needed_bytes=needed,
        batch_size=None if steps.fixed else batch_size or 32,
        ways=ways,
        past=None if recorded is None else _past(Path(what)),
    )
    names = [one.name for one in machine.accelerators]
    return HereAdvice(
        title=source.title,
        batch_size=facts.batch_size,
        machine=", ".join([machine.cpu_model or "a processor without a name", *names]),
        suggestions=suggest_here(facts),
        notes=tuple(notes),
    )


def _ways(steps: Any, machine: Machine, batch: int) -> tuple[Plan, ...]:
    """The step on this machine's accelerator, with the batch asked for and larger ones."""
    from trainload.api.predicting.costs import find_terms
    from trainload.api.recommending.plans import Planner, Training

    terms = find_terms(prices=None, market="on demand", provider=None, place=None, pue=None)
    asked = find_candidates("owned", terms.prices, machine)
    found: list[Plan] = []
    for times in (1,) if steps.fixed else LARGER:
        training = Training(
            examples=None,
            epochs=1,
            steps=1,
            batch_size=None if steps.fixed else times * batch,
            precision=None,
        )
        planner = Planner(steps, training, terms)
        for candidate in asked.known:
            if candidate.device.kind == "CPU":
                continue
            found += [
                one
                for one in planner.plans(candidate)
                if isinstance(one, Plan) and one.count == 1 and one.portions == 1
            ]
    return tuple(found)


def _past(path: Path) -> PastRun:
    from trainload.analyse.attribution.machine import find_machine
    from trainload.api.loading import load

    run = load(path)
    summary = run.summary
    circumstances = find_machine(run)
    wait = summary.input_wait_s
    whole = summary.training_s
    return PastRun(
        name=path.name,
        wait_fraction=min(wait / whole, 1.0) if wait is not None and whole > 0 else None,
        quota_fraction=circumstances.quota_fraction,
        swapped_bytes=circumstances.swapped_bytes,
    )
