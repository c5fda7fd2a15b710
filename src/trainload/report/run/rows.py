"""A summary and its manifest as rows of plain text, the same for the terminal and for HTML.

Turns figures into words; every figure itself comes from `analyse` or from the record.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainload.analyse import ColumnSummary, EnergySummary, EpochScore, RunSummary
from trainload.analyse.columns import metered_quantities
from trainload.checked import to_json
from trainload.hardware import Job, Machine
from trainload.record import (
    Imported,
    Manifest,
    RecordedMeter,
    RecordedQuantity,
    RecordedRank,
    RecordedSetting,
)
from trainload.report.run.headline import Row, loss_row
from trainload.report.wording import (
    clean_text,
    render_energy,
    render_figure,
    render_list,
    render_refresh,
)
from trainload.units import (
    MISSING,
    render_bytes,
    render_percent,
    render_seconds,
    render_value,
    unit_of,
)
from trainload.workload import RecordedGraph, RecordedScript, RecordedWatch
from trainload_worker.protocol.events import Obtained

_GPU_LOAD = re.compile(r"gpu(\d+)_load_fraction")
WHOLE_FRACTION = 0.95
"""An amount that covers less of its span than this says so."""
_LOAD_UNITS = ("fraction", "bytes", "W", "°C", "Hz", "1/s", "bytes/s", "V", "A", "count")


@dataclass(frozen=True, kw_only=True)
class LoadRow:
    """One metered column in words: min, mean and max over the training phase."""

    column: str
    min: str
    mean: str
    max: str
    readings: str
    provenance: str


def title_of(manifest: Manifest) -> str:
    """Model, framework and setting in one line."""
    resolved = manifest.setting.resolved
    setting = resolved.text if resolved is not None else manifest.setting.asked.setting
    parts = (manifest.model_name, manifest.framework, setting)
    return " · ".join(clean_text(part) for part in parts if part)


def given_rows(origin: Imported) -> list[tuple[str, str, str]]:
    """Figures that the source of an imported run states: name, value, deviation."""
    rows = []
    for name, figure in origin.figures.items():
        known = name not in origin.raw
        value = render_figure(name, figure.value) if known else f"{figure.value:g} (unit unknown)"
        spread = MISSING if figure.deviation is None else f"± {figure.deviation:g}"
        told = f"{value} (derived)" if figure.derived else value
        rows.append((clean_text(name), told, spread))
    return rows


def gpu_load(summary: RunSummary) -> tuple[str, ColumnSummary] | None:
    """Number and load of the first GPU that was metered; None without one."""
    for name, column in summary.columns.items():
        if found := _GPU_LOAD.fullmatch(name):
            return found[1], column
    return None


def render_coverage(between_s: float | None, summary: RunSummary) -> str:
    """How much of the span an amount covers, where that is not nearly all; else empty."""
    whole_s = summary.covered_s
    if between_s is None or not whole_s or between_s >= WHOLE_FRACTION * whole_s:
        return ""
    return f"over {render_seconds(between_s)} of {render_seconds(whole_s)}"


def _amount(text: str, between_s: float | None, summary: RunSummary) -> str:
    """An amount with its coverage in brackets: '810 J (over 8.1 s of 9.9 s)'."""
    coverage = render_coverage(between_s, summary) if text != MISSING else ""
    if not coverage:
        return text
    return f"{text[:-1]}, {coverage})" if text.endswith(")") else f"{text} ({coverage})"


def render_source_energy(
    source: EnergySummary, summary: RunSummary, *, watt_hours: bool = True
) -> str:
    """One source's energy, and how much of the span it covers where that is not nearly all."""
    text = render_energy(source.energy_j, watt_hours=watt_hours)
    return _amount(text, source.between_s, summary)


def quality_rows(summary: RunSummary, manifest: Manifest) -> list[Row]:
    """Scores of the last and the best epoch; one row saying so where there are none."""
    if isinstance(manifest.workload, RecordedScript | RecordedWatch):
        # Most tell no epochs; Keras and the callbacks of trainers do.
        return [loss_row(summary, manifest), *_epoch_rows(summary)]
    before = course_rows(manifest)
    if summary.final is None:
        return [*before, ("quality", "no epoch finished")]
    if manifest.task == "validate":
        return [*before, ("scores", render_score(summary.final))]
    return [*before, *_epoch_rows(summary)]


def _epoch_rows(summary: RunSummary) -> list[Row]:
    told = (("last", summary.final), ("best", summary.best))
    return [
        (f"{which} epoch ({score.epoch + 1})", render_score(score))
        for which, score in told
        if score is not None
    ]


def course_rows(manifest: Manifest) -> list[Row]:
    """What the run began from and what it saved; no rows where it did neither."""
    rows = []
    if manifest.continues is not None:
        told = manifest.continues
        origin = clean_text(told.run_id or told.path or MISSING)
        epochs = MISSING if told.epoch is None else told.epoch
        words = f"{origin} after {epochs} epochs ({clean_text(told.framework or MISSING)})"
        rows.append(("validates" if manifest.task == "validate" else "continues", words))
    if manifest.checkpoints:
        last = manifest.checkpoints[-1]
        count = len(manifest.checkpoints)
        others = f", and {count - 1} before" if count > 1 else ""
        size = render_bytes(last.bytes)
        rows.append(("saved", f"{clean_text(last.file)} ({size}){others}"))
    return rows


def render_score(score: EpochScore) -> str:
    """One epoch's scores in one line; scores that do not exist are left out."""
    parts = []
    if score.train_loss is not None:
        parts.append(f"training loss {score.train_loss:.4g}")
    for name, value in score.validation.items():
        if value is not None:
            shown = f"{value:.4g}" if name == "loss" else render_percent(value)
            parts.append(f"validation {clean_text(name).replace('_', ' ')} {shown}")
    return ", ".join(parts) or MISSING


def load_rows(summary: RunSummary, manifest: Manifest, columns: Any = None) -> list[LoadRow]:
    """States with their figures and provenance; those in `columns`, else all that are loads."""
    quantities = metered_quantities(manifest.meters)
    chosen = [
        column
        for name, column in summary.columns.items()
        if (name in columns if columns is not None else unit_of(name) in _LOAD_UNITS)
    ]
    return [_load_row(column, quantities.get(column.column)) for column in chosen]


def _load_row(column: ColumnSummary, quantity: RecordedQuantity | None) -> LoadRow:
    name = column.column
    return LoadRow(
        column=clean_text(name),
        min=render_figure(name, column.min),
        mean=render_figure(name, column.mean),
        max=render_figure(name, column.max),
        readings=f"{column.count:,}",
        provenance=_provenance(quantity),
    )


def _provenance(quantity: RecordedQuantity | None) -> str:
    return (quantity.provenance if quantity is not None else None) or "not stated"


def energy_rows(summary: RunSummary) -> list[tuple[str, str, str, str]]:
    """Source, energy, mean power and provenance."""
    return [
        (
            clean_text(source.source),
            render_source_energy(source, summary),
            render_value("power_w", source.mean_power_w),
            source.provenance
            + (", from power by trapezoid" if source.column.endswith("_power_w") else ""),
        )
        for source in summary.energy
    ]


def counter_rows(summary: RunSummary, manifest: Manifest) -> list[tuple[str, str, str]]:
    """Counters other than energy: column, amount over the training phase, provenance."""
    quantities = metered_quantities(manifest.meters)
    return [
        (
            clean_text(name),
            _amount(render_figure(name, counter.amount), counter.between_s, summary),
            _provenance(quantities.get(name)),
        )
        for name, counter in summary.counters.items()
        if not name.endswith("_energy_j")
    ]


def machine_rows(machine: Machine | None) -> list[Row]:
    """Cores, memory, limits and GPUs, as label and text; one row saying so where not known."""
    if machine is None:
        return [("machine", "not known: the record does not say")]
    cores = f"{machine.logical_cores} logical"
    if machine.physical_cores:
        cores += f", {machine.physical_cores} physical"
    rows = [
        ("processor", clean_text(machine.cpu_model or MISSING)),
        ("cores", f"{cores}; allowed {render_list(machine.allowed_cores)}"),
        ("memory", render_bytes(machine.memory_total_bytes)),
        ("swap", render_bytes(machine.swap_total_bytes)),
        ("system", clean_text(machine.operating_system or MISSING)),
        ("kernel", clean_text(machine.kernel or MISSING)),
    ]
    if machine.cpu_quota_cores is not None:
        rows.append(("CPU quota", f"{machine.cpu_quota_cores} cores"))
    if machine.memory_limit_bytes is not None:
        rows.append(("memory limit", render_bytes(machine.memory_limit_bytes)))
    rows += [
        (
            f"gpu{accelerator.index}",
            f"{clean_text(accelerator.name)}, {render_bytes(accelerator.memory_bytes)}, "
            f"driver {clean_text(accelerator.driver or MISSING)}",
        )
        for accelerator in machine.accelerators
    ]
    if not machine.accelerators:
        rows.append(("accelerators", f"none: {clean_text(machine.accelerator_note or MISSING)}"))
    return rows


def job_rows(job: Job | None) -> list[Row]:
    """The scheduler's job; no row outside of one."""
    if job is None:
        return []
    parts: tuple[tuple[str, str | int | None], ...] = (
        ("", job.id),
        ("", job.name),
        ("in ", job.group),
        ("array ", job.array_id),
        ("task ", job.task),
        ("step ", job.step),
        ("restarts ", job.restarts),
    )
    told = [f"{word}{clean_text(value)}" for word, value in parts if value is not None]
    return [(f"{job.scheduler} job", ", ".join(told) or MISSING)]


def setting_rows(setting: RecordedSetting) -> list[Row]:
    """The setting as asked, resolved and obtained."""
    asked, resolved, obtained = setting.asked, setting.resolved, setting.obtained
    threads = f", {asked.threads} threads" if asked.threads else ""
    rows = [("asked", clean_text(asked.setting or "the default") + threads)]
    if resolved is not None:
        rows.append(("resolved", f"{clean_text(resolved.text)}, {resolved.threads} threads"))
    if obtained is None:
        return [*rows, ("obtained", "not known: the worker did not say")]
    return [*rows, ("obtained", _obtained(obtained))]


def rank_rows(ranks: Iterable[RecordedRank]) -> Iterator[Row]:
    """What each of several processes had of the setting, and its own peaks of memory."""
    for number, rank in enumerate(ranks):
        memory = rank.memory
        peaks = (
            ("resident", memory.peak_rss_bytes),
            ("allocated on its device", memory.peak_allocated_bytes),
        )
        told = [f"{render_bytes(size)} {words}" for words, size in peaks if size is not None]
        held = f"; peak {', '.join(told)}" if told else ""
        part = "not known" if rank.obtained is None else _obtained(rank.obtained)
        yield f"rank {number}", part + held


def _obtained(obtained: Obtained) -> str:
    return (
        f"cores {render_list(obtained.cores)}; {obtained.threads or MISSING} threads; "
        f"device {clean_text(obtained.device or MISSING)}"
    )


def workload_rows(manifest: Manifest) -> list[Row]:
    """Model or script, data, optimizer, batch size and length, as label and text."""
    workload = manifest.workload
    rows = [("model", clean_text(manifest.model_name or MISSING))]
    if isinstance(workload, RecordedScript):
        return [*rows, *_script_rows(workload)]
    if isinstance(workload, RecordedWatch):
        return [*rows, *_flat_rows(workload.watched)]
    if workload is None:
        return rows
    rows += [(clean_text(k), render_list(v)) for k, v in workload.model_options.items()]
    counted = manifest.model.parameters
    parameters = workload.parameters if counted is None else counted
    rows.append(("parameters", MISSING if parameters is None else f"{parameters:,}"))
    rows += _flat_rows(to_json(workload.training) or {})
    rows.append(("data", workload.data.kind if workload.data is not None else MISSING))
    rows += _flat_rows(to_json(manifest.data))
    rows.append(("seeds", render_list(to_json(workload.seeds))))
    return rows


def _script_rows(workload: RecordedScript) -> list[Row]:
    script = workload.script
    if script is None:
        return [("script", MISSING)]
    arguments = " ".join(clean_text(word) for word in script.arguments)
    return [
        ("script", f"{clean_text(script.path)} {arguments}".rstrip()),
        ("script's SHA-256", clean_text(script.sha256 or MISSING)),
    ]


def software_rows(software: Mapping[str, Any]) -> list[Row]:
    """Versions in use; what is not there is left out."""
    return [(clean_text(k).replace("_", " "), render_list(v)) for k, v in software.items() if v]


def layer_rows(manifest: Manifest) -> list[tuple[str, str, str, str]]:
    """Name, kind, output shape and attributes of each layer of the graph."""
    graph = manifest.workload.graph if isinstance(manifest.workload, RecordedGraph) else None
    return [
        (
            clean_text(layer.name),
            clean_text(layer.kind),
            " × ".join(map(str, layer.output_shape)) or MISSING,
            render_list(layer.attributes),
        )
        for layer in (graph.layers if graph is not None else ())
    ]


MeterRow = tuple[str, str, str, str, str, str]


def meter_rows(
    meters: Iterable[RecordedMeter], summary: RunSummary | None = None
) -> list[MeterRow]:
    """Meter, column, provenance, source, refresh and reason of each quantity.

    A meter whose source is not there has one row that says why. Where a source does not state
    its refresh, a run's summary tells what was observed.
    """
    observed = summary.columns if summary is not None else {}
    rows: list[MeterRow] = []
    for meter in meters:
        name = clean_text(meter.name)
        rows += [(name, *_quantity_cells(quantity, observed)) for quantity in meter.quantities]
        if not meter.quantities:
            reason = clean_text(meter.reason or "it offers nothing here")
            rows.append((name, MISSING, "unavailable", MISSING, MISSING, reason))
    return rows


def _quantity_cells(
    quantity: RecordedQuantity, observed: Mapping[str, ColumnSummary]
) -> tuple[str, str, str, str, str]:
    absent = quantity.provenance == "unavailable"
    column = observed.get(quantity.column)
    seen_s = column.observed_refresh_s if column is not None else None
    return (
        clean_text(quantity.column),
        _provenance(quantity),
        clean_text(quantity.source or MISSING),
        MISSING if absent else render_refresh(quantity.refresh_s, seen_s),
        clean_text(quantity.reason or ""),
    )


def _flat_rows(values: Mapping[str, Any]) -> Iterator[Row]:
    for key, value in values.items():
        if value is not None and value != []:
            yield clean_text(key).replace("_", " "), render_list(value)
