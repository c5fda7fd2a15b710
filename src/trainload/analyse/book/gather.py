"""Runs as entries of the book: equal ones are repetitions of one, medians with intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainload.analyse.book.entries import METRICS, BookEntry, BookFigure, Origin, in_order
from trainload.analyse.study.figures import told_facts
from trainload.analyse.study.tidy import level_text
from trainload.intervals import median_interval
from trainload.record import Manifest
from trainload.record.figures import RunFigures
from trainload.record.stripping import strip_text

_COLUMNS = ("model", "framework", "framework_version", "setting", "batch_size", "precision")
_SHOWN = (*_COLUMNS, "optimizer.name")
_UNTOLD = ("processes", "threads", "script.sha256", "script.masked")
_LONGEST = 200
_METRICS = {
    "peak_device_bytes": ("peak_gpu_bytes",),
    "peak_reserved_bytes": ("peak_reserved_bytes",),
    "peak_host_bytes": ("peak_host_bytes", "peak_rss_bytes"),
    "step_s": ("step_s",),
    "examples_per_s": ("examples_per_s",),
    "mean_power_w": ("mean_power_w",),
    "validation_accuracy": ("validation_accuracy",),
    "duration_s": ("duration_s",),
    "energy_j": ("energy_j",),
}
"""Of each figure the metrics of a run that tell it, the better one first."""


@dataclass(frozen=True, kw_only=True)
class BookRun:
    """One run that counts."""

    figures: RunFigures
    device: str | None
    """`device_of` its manifest."""
    software: Mapping[str, str | None]
    sha256: str
    """Of its run.json."""


def gather_entries(runs: Iterable[BookRun]) -> list[BookEntry]:
    """One entry for runs that were asked for alike, on the same device and software.

    In order of model, framework, device and batch.
    """
    groups: dict[tuple[Any, ...], list[BookRun]] = defaultdict(list)
    for run in runs:
        groups[_identity(run)].append(run)
    found = [_entry(group) for group in groups.values()]
    variants = _variants([group[0] for group in groups.values()])
    named = [replace(one, variant=text) for one, text in zip(found, variants, strict=True)]
    return in_order(named)


def _identity(run: BookRun) -> tuple[Any, ...]:
    facts = told_facts(run.figures)
    told = tuple(sorted((name, level_text(value)) for name, value in facts.items()))
    return told, run.device, run.figures.imported


def device_of(manifest: Manifest) -> str | None:
    """The accelerators that the run used, else the processor; None where nobody says."""
    resolved, obtained = manifest.setting.resolved, manifest.setting.obtained
    on_host = obtained is not None and str(obtained.device or "").startswith("cpu")
    if resolved is not None and resolved.accelerators and not on_host:
        names = [accelerator.name for accelerator in resolved.accelerators]
        kinds = list(dict.fromkeys(names))
        return ", ".join(f"{names.count(k)} × {k}" if names.count(k) > 1 else k for k in kinds)
    if manifest.machine is not None:
        return manifest.machine.cpu_model or manifest.machine.architecture
    labels = {} if manifest.imported is None else manifest.imported.labels
    return next(
        (labels[key] for key in ("device", "board", "gpu", "machine") if key in labels), None
    )


def _entry(group: Sequence[BookRun]) -> BookEntry:
    first = group[0]
    facts = told_facts(first.figures)
    imported = first.figures.imported
    origin: Origin = "measured" if imported is None else "imported"
    values = [_metrics(run.figures.metrics) for run in group]
    batch = facts.get("batch_size")
    return BookEntry(
        model=_text(facts.get("model")) or "unnamed",
        origin=origin,
        source="run directories" if imported is None else f"imported from {imported}",
        framework=_text(facts.get("framework")),
        framework_version=_text(facts.get("framework_version")),
        device=first.device,
        setting=_text(facts.get("setting")),
        batch_size=batch if isinstance(batch, int) else None,
        precision=_text(facts.get("precision")),
        optimizer=_text(facts.get("optimizer.name") or facts.get("optimizer")),
        repetitions=len(group),
        figures={m: figure for m in METRICS if (figure := _figure(m, values)) is not None},
        energy_source=first.figures.energy_source,
        software=dict(first.software),
        created=max(run.figures.created or "" for run in group) or None,
        runs={run.figures.run_id: run.sha256 for run in group},
        note="" if len(group) > 2 else "under three repetitions: no interval",
    )


def _metrics(told: Mapping[str, float]) -> dict[str, float]:
    found = {
        name: next(told[key] for key in keys if key in told)
        for name, keys in _METRICS.items()
        if any(key in told for key in keys)
    }
    rate = found.get("examples_per_s")
    if rate and "mean_power_w" in found:
        found["energy_per_example_j"] = found["mean_power_w"] / rate
    return found


def _figure(metric: str, values: Sequence[Mapping[str, float]]) -> BookFigure | None:
    known = sorted(told[metric] for told in values if metric in told)
    if not known:
        return None
    interval = median_interval(known)
    middle = len(known) // 2
    median = known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2
    return BookFigure(
        value=median,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        repetitions=len(known),
    )


def _variants(runs: Sequence[BookRun]) -> Iterator[str]:
    """Of each what tells it from others in the same cell of the table."""
    facts = [told_facts(run.figures) for run in runs]
    cells = [
        (run.device, *(level_text(told.get(name)) for name in _SHOWN))
        for run, told in zip(runs, facts, strict=True)
    ]
    alike: dict[tuple[str | None, ...], list[dict[str, Any]]] = defaultdict(list)
    for cell, told in zip(cells, facts, strict=True):
        alike[cell].append(told)
    differing = {cell: _differing(group) for cell, group in alike.items()}
    for cell, told in zip(cells, facts, strict=True):
        text = ", ".join(f"{n} {level_text(told[n])}" for n in differing[cell] if n in told)
        yield strip_text(text)[:_LONGEST]


def _differing(group: Sequence[Mapping[str, Any]]) -> list[str]:
    names = dict.fromkeys(n for told in group for n in told if n not in (*_SHOWN, *_UNTOLD))
    return [n for n in names if len({level_text(told.get(n)) for told in group}) > 1]


def _text(value: Any) -> str | None:
    return None if value is None else strip_text(str(value), own=False)
