"""One run as a study sees it: its figures, and what it was asked to be.

Takes a run and its summary, gives the value that the record keeps; opens no file of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from trainload.analyse.headline import headline_row
from trainload.analyse.summary import RunSummary
from trainload.record import Manifest, Run
from trainload.record.figures import RunFigures
from trainload_worker.protocol.checked import to_json

_NO_METRICS = ("warnings",)
_OF_STEPS = ("steps", "epochs", "training_s")
_NO_FACTS = ("graph", "seeds", "parameters", "model")
_OUTER = ("training.", "model_options.", "watched.")
"""Parts of the workload whose names users write without them."""


def figures_of(run: Run, summary: RunSummary, run_sha256: str) -> RunFigures:
    """The figures of a run that has ended; `run_sha256` is that of its run.json."""
    manifest = run.manifest
    told, origin = manifest.study, manifest.imported
    computed = dict(_metrics(run, summary))
    given = dict(_given(manifest))
    return RunFigures(
        run_sha256=run_sha256,
        run_id=summary.run_id,
        created=manifest.created,
        imported=None if origin is None else origin.kind,
        outcome=summary.outcome,
        outcome_reason=summary.reason,
        study=None if told is None else told.study,
        cell=None if told is None else told.cell,
        repetition=None if told is None else told.repetition,
        factors={} if told is None else dict(told.factors),
        facts=dict(facts_of(manifest)),
        metrics={**given, **computed},
        given=tuple(
            name
            for name, figure in ({} if origin is None else origin.figures).items()
            if name not in computed and not figure.derived
        ),
        energy_source=headline_row(run, summary)["energy_source"],
    )


def _metrics(run: Run, summary: RunSummary) -> Iterator[tuple[str, float]]:
    found: dict[str, Any] = {name: column.mean for name, column in summary.columns.items()}
    found.update((name, counter.amount) for name, counter in summary.counters.items())
    if summary.final is not None:
        found.update((f"validation_{n}", v) for n, v in summary.final.validation.items())
    found.update(headline_row(run, summary))
    found["covered_s"] = summary.covered_s
    for name, value in found.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _OF_STEPS and not value and run.manifest.imported is not None:
            continue  # nobody counted steps, so there are not none of them
        if number and math.isfinite(value) and name not in _NO_METRICS:
            yield name, float(value)


def _given(manifest: Manifest) -> Iterator[tuple[str, float]]:
    """Figures that the source of an imported run states of it as a whole."""
    for name, figure in ({} if manifest.imported is None else manifest.imported.figures).items():
        if math.isfinite(figure.value):
            yield name, figure.value


def facts_of(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    """What a run was asked to be, one name a fact."""
    resolved = manifest.setting.resolved
    yield "model", manifest.model_name
    yield "framework", manifest.framework
    yield "setting", manifest.setting.asked.setting if resolved is None else resolved.text
    yield "threads", manifest.setting.asked.threads
    yield "processes", manifest.processes
    yield "framework_version", manifest.software.get("framework_version")
    workload = {} if manifest.workload is None else to_json(manifest.workload)
    for name, value in _leaves({n: v for n, v in workload.items() if n not in _NO_FACTS}):
        outer = next((o for o in _OUTER if name.startswith(o)), "")
        yield name.removeprefix(outer), value


def told_facts(figures: RunFigures) -> dict[str, Any]:
    """What a run was asked to be, as its record tells; the levels of its study go before."""
    told = {name: value for name, value in figures.facts.items() if value is not None}
    return {**told, **figures.factors}


def _leaves(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _leaves(inner, f"{before}{name}.")
        elif isinstance(inner, list | tuple):
            yield f"{before}{name}", json.dumps(inner, ensure_ascii=False)
        else:
            yield f"{before}{name}", inner
