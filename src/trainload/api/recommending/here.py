"""Suggestions for this machine: reads it, traces the step, asks past runs; prints nothing."""

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
from trainload.api.recommending.candidates import Candidate, find_candidates
from trainload.api.recommending.past_runs import PastRuns
from trainload.errors import TrainloadError
from trainload.hardware.clusters import read_clusters
from trainload.hardware.inventory import Machine, cpu_name, read_machine
from trainload.hardware.limits import find_limits
from trainload.hardware.surroundings import Surroundings, read_surroundings
from trainload.recommend.here import HereFacts, Suggestion, reach_of, suggest_here
from trainload.recommend.types import Plan

if TYPE_CHECKING:
    from trainload.api.recommending.trying import TrialStudy
    from trainload.workload import Optimizer
    from trainload_worker.protocol.training import OptimizerName

LARGER = (1, 2, 4)
"""Times the batch asked for that are predicted."""
BATCH = 32
"""Where nobody says."""


@dataclass(frozen=True, kw_only=True, repr=False)
class HereAdvice:
    """Suggestions for one training on this machine."""

    title: str
    batch_size: int | None
    machine: str
    suggestions: tuple[Suggestion, ...]
    notes: tuple[str, ...] = ()
    trial: TrialStudy | None = None
    """What was measured of them; None where nobody asked."""

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload recommend --here --json`."""
        trial = self.trial
        return {
            "format": 1,
            "what": self.title,
            "batch_size": self.batch_size,
            "machine": self.machine,
            "suggestions": [asdict(one) for one in self.suggestions],
            "notes": list(self.notes),
            "trial": None
            if trial is None
            else {
                "study": None if trial.path is None else str(trial.path),
                "runs": trial.runs,
                "interrupted": trial.interrupted,
            },
        }

    def to_text(self) -> str:
        """What `trainload recommend --here` prints."""
        from trainload.report.recommend.here import render_here

        return render_here(self)

    def to_html(self) -> str:
        """The page of `trainload recommend --here --html`."""
        from trainload.report.recommend.here_page import render_here_html

        return render_here_html(self)


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
    try_minutes: float | None = None,
    history: str | Path | None = "runs",
    out: str | Path = "studies",
    show: Callable[[str], None] | None = None,
    machine: Machine | None = None,
    surroundings: Surroundings | None = None,
    **model_options: Any,
) -> HereAdvice:
    """How to set a training on this machine, each suggestion with its gain where it is known.

    `what` is what `recommend` takes; a run directory also tells what that run waited for.

    - `try_minutes`: measure the suggestions that can be set from outside, in about so many
      minutes; the study is kept in `out`. Each is then confirmed, withdrawn or not decided.
    - `history`: a folder of runs; those of this training on this machine tell gains.
    - `machine` and `surroundings` stand in for this one's.

    TrainloadError where something cannot be meant; a step that cannot be traced leaves its figures
    missing, with a note.
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
    rule = choose_optimizer(optimizer or "adam", momentum)
    steps = Steps(
        source,
        rule,
        batch_size=batch_size,
        python=interpreter_of(source, python),
        limit_s=limit_s,
        show=show,
    )
    batch = batch_size or BATCH
    work = None
    if try_minutes is not None:  # said before the step is traced
        from trainload.api.recommending.trial_work import find_trial_work

        work = find_trial_work(
            source,
            options=model_options,
            batch_size=None if steps.fixed else batch,
            optimizer=rule,
            recorded=None if recorded is None else Path(what),
            python=python,
        )
    notes: list[str] = []
    ways: tuple[Plan, ...] = ()
    needed = None
    try:
        ways = _ways(steps, machine, batch)
        if not machine.accelerators:
            needed = steps.ram(("cpu", "float32", False), batch).high_bytes
    except TrainloadError as error:
        notes.append(f"the step could not be traced: {error}")
    past = PastRuns(
        None if history is None else Path(history),
        machine,
        title=source.title,
        run=None if recorded is None else Path(what),
        batch_size=None if steps.fixed else batch,
    )
    facts = _facts(machine, around, past, ways, needed, None if steps.fixed else batch)
    found = tuple(past.tell(one) for one in suggest_here(facts))
    trial = None
    if work is not None and try_minutes is not None:
        from trainload.api.recommending.trying import try_suggestions

        trial = try_suggestions(work, found, minutes=try_minutes, out=out, show=show)
        found = trial.suggestions
        notes += trial.notes
    names = [one.name for one in machine.accelerators]
    return HereAdvice(
        title=source.title,
        batch_size=facts.batch_size,
        machine=", ".join([machine.cpu_model or "a processor without a name", *names]),
        suggestions=found,
        notes=tuple(notes),
        trial=trial,
    )


def _facts(
    machine: Machine,
    around: Surroundings,
    past: PastRuns,
    ways: tuple[Plan, ...],
    needed: int | None,
    batch_size: int | None,
) -> HereFacts:
    rooms = [one for one in (machine.memory_total_bytes, machine.memory_limit_bytes) if one]
    limits = find_limits(machine)
    return HereFacts(
        allowed_cores=len(machine.allowed_cores),
        physical_cores=machine.physical_cores,
        logical_cores=machine.logical_cores,
        quota_cores=machine.cpu_quota_cores,
        clusters={name: len(cores) for name, cores in read_clusters().items()},
        memory_bytes=min(rooms) if rooms else None,
        swap_bytes=machine.swap_total_bytes,
        huge_pages=around.huge_pages,
        c_library=around.c_library,
        bf16_units=around.bf16_units,
        disk_free_bytes=around.disk_free_bytes,
        disk_rotates=around.disk_rotates,
        needed_bytes=needed,
        batch_size=batch_size,
        accelerator=f"gpu{machine.accelerators[0].index}" if machine.accelerators else None,
        ways=ways,
        past=past.newest,
        reach=None if limits is None else reach_of(limits),
    )


def _ways(steps: Any, machine: Machine, batch: int) -> tuple[Plan, ...]:
    """The step on what a run takes here, with the batch asked for and larger ones.

    An accelerator is predicted for by the catalogue, a processor only where it was calibrated.
    """
    from trainload.api.predicting.costs import find_terms
    from trainload.api.recommending.plans import Planner, Training

    terms = find_terms(prices=None, market="on demand", provider=None, place=None, pue=None)
    asked = _calibrated(machine)
    if machine.accelerators:
        owned = find_candidates("owned", terms.prices, machine).known
        asked = tuple(one for one in owned if one.device.kind != "CPU")
    found: list[Plan] = []
    if not asked:
        return ()
    for times in (1,) if steps.fixed else LARGER:
        training = Training(
            examples=None,
            epochs=1,
            steps=1,
            batch_size=None if steps.fixed else times * batch,
            precision=None,
        )
        planner = Planner(steps, training, terms)
        for candidate in asked:
            found += [
                one
                for one in planner.plans(candidate)
                if isinstance(one, Plan) and one.count == 1 and one.portions == 1
            ]
    return tuple(found)


def _calibrated(machine: Machine) -> tuple[Candidate, ...]:
    """This machine's processor where its calibration is kept, else none."""
    from trainload.api.predicting.devices import calibrated_processor
    from trainload.errors import UnknownHardware
    from trainload.hardware.calibrations import load_calibrations
    from trainload.hardware.catalogue import find_device
    from trainload.hardware.naming import device_key

    key = device_key(cpu_name(machine))
    kept = load_calibrations().get(key)
    if kept is None:
        return ()
    try:
        device = find_device(key)
    except UnknownHardware:
        made = calibrated_processor(kept)
        if made is None:
            return ()
        device = made
    rooms = [one for one in (machine.memory_total_bytes, machine.memory_limit_bytes) if one]
    return (
        Candidate(device=device, counts=(1,), owned=True, host_bytes=min(rooms) if rooms else None),
    )
