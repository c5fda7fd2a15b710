"""The published tables beside the same figures measured here; frames and evidence in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainload.analyse.published import SOURCES, load_published
from trainload.analyse.reproduce.evidence import Evidence
from trainload.analyse.reproduce.readings import Reading, read_change, read_value
from trainload.analyse.study.contrasts import require_scipy
from trainload.analyse.study.effects import CHANCE

Cell = str | float | Reading | None
_LOADS = {
    "gpu_load": "gpu_load_fraction",
    "cpu_load": "host_cpu_load_fraction",
    "vram_used": "gpu0_memory_used_fraction",
}
_MODELS = {"lenet": "lenet5", "squeezenet": "squeezenet1_1"}
"""Names of the publication that are not ours."""


@dataclass(frozen=True, kw_only=True)
class Beside:
    """One table with published and measured columns."""

    title: str
    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def side_by_side(study: str, evidence: Evidence) -> list[Beside]:
    """The published tables of a shipped study's source, each with what was measured."""
    require_scipy()
    return list(_TABLES[study](evidence))


def _load_analysis(evidence: Evidence) -> Iterator[Beside]:
    rows: list[tuple[Cell, ...]] = []
    base = evidence.study.base
    for row in load_published("load_analysis_results").iter_rows(named=True):
        factor, level = row["factor"], str(row["level"])
        levels = {factor: level}
        first = base.get(factor, "")
        time_s = {str(r["level"]): r["training_time_s"] for r in _of_factor(factor)}
        rows.append(
            (
                factor,
                level,
                row["training_time_s"],
                row["training_time_s"] / time_s[first] if first in time_s else None,
                read_value(evidence, levels, "training_s", CHANCE),
                _against_base(evidence, factor, level, "training_s"),
                row["accuracy"],
                read_value(evidence, levels, "validation_accuracy", CHANCE),
                row["f1"],
                read_value(evidence, levels, "validation_f1_weighted", CHANCE),
            )
        )
    yield Beside(
        title="Training time and quality",
        source=SOURCES["load_analysis_results"],
        columns=(
            "factor",
            "level",
            "published time (s)",
            "published, base = 1",
            "measured time (s)",
            "measured, base = 1",
            "published accuracy",
            "measured accuracy",
            "published F1",
            "measured F1",
        ),
        rows=tuple(rows),
    )
    loads = load_published("load_analysis_mean_loads")
    yield Beside(
        title="Mean loads, as fractions of capacity",
        source=SOURCES["load_analysis_mean_loads"],
        columns=("factor", "level", "resource", "published", "measured"),
        rows=tuple(
            (
                row["factor"],
                str(row["level"]),
                row["resource"],
                row["mean_fraction"],
                read_value(
                    evidence, {row["factor"]: str(row["level"])}, _LOADS[row["resource"]], CHANCE
                ),
            )
            for row in loads.iter_rows(named=True)
        ),
    )


def _of_factor(factor: str) -> list[dict[str, Any]]:
    found = load_published("load_analysis_results")
    return found.filter(found["factor"] == factor).to_dicts()


def _against_base(evidence: Evidence, factor: str, level: str, metric: str) -> Cell:
    if level == evidence.study.base.get(factor):
        return 1.0
    return read_change(evidence, {factor: level}, {}, metric, CHANCE)


def _per_layer(evidence: Evidence) -> Iterator[Beside]:
    rows: list[tuple[Cell, ...]] = []
    for row in load_published("layer_profiling_results").iter_rows(named=True):
        network = f"{row['model']}-{row['batch']}"
        traced = {"network": network, "layers": "true"}
        plain = {"network": network, "layers": "false"}
        added = row["profiled_over_plain_pct_increase"]
        rows.append(
            (
                network,
                None if added is None else 1 + added / 100,
                read_change(evidence, traced, plain, "training_s", CHANCE),
                f"{row['unexplained_pct_low']} to {row['unexplained_pct_high']} %",
                _percent(read_value(evidence, traced, "outside_layers_fraction", CHANCE)),
                _percent(read_value(evidence, traced, "remainder_fraction", CHANCE)),
            )
        )
    yield Beside(
        title="What profiling costs, and what it leaves unexplained",
        source=SOURCES["layer_profiling_results"],
        columns=(
            "network and batch",
            "published: profiled over plain",
            "measured: traced over plain",
            "published: step not explained by layers",
            "measured: step outside layers (%)",
            "measured: explained by nothing (%)",
        ),
        rows=tuple(rows),
    )


def _percent(reading: Reading) -> Reading:
    """The fraction of a reading in percent."""
    scaled = (None if v is None else 100 * v for v in (reading.value, reading.low, reading.high))
    value, low, high = scaled
    return Reading(value=value, low=low, high=high, runs=reading.runs, reason=reading.reason)


def _edge_evaluation(evidence: Evidence) -> Iterator[Beside]:
    published = load_published("edge_evaluation_results")
    configs = published["hardware_config"].unique(maintain_order=True).to_list()
    settings = _levels(evidence, "setting")
    time_s: Mapping[tuple[str, ...], float] = {
        (r["model"], r["framework"], r["hardware_config"]): r["epoch_time_s"]
        for r in published.iter_rows(named=True)
    }
    rows: list[tuple[Cell, ...]] = []
    for model in published["model"].unique(maintain_order=True):
        told: list[Cell] = [model]
        for config in configs:
            one, other = (time_s.get((model, f, config)) for f in ("mxnet", "pytorch"))
            told.append(one / other if one and other else None)
        for setting in settings:
            cell = {"model": _MODELS.get(model, model), "setting": setting}
            told.append(
                read_change(
                    evidence,
                    {**cell, "framework": "mxnet"},
                    {**cell, "framework": "torch"},
                    "step_mean_s",
                    CHANCE,
                )
            )
        rows.append(tuple(told))
    yield Beside(
        title="Time of MXNet over time of PyTorch: above 1 PyTorch is faster",
        source=SOURCES["edge_evaluation_results"],
        columns=(
            "model",
            *(f"published {config}" for config in configs),
            *(f"measured {setting}" for setting in settings),
        ),
        rows=tuple(rows),
    )


def _levels(evidence: Evidence, factor: str) -> list[str]:
    """Levels of which some run counts, sorted."""
    if factor not in evidence.study.factors:
        return []
    found: list[str] = evidence.study.counted[factor].unique(maintain_order=True).to_list()
    return sorted(found)


_TABLES: Mapping[str, Callable[[Evidence], Iterator[Beside]]] = {
    "load-analysis": _load_analysis,
    "per-layer": _per_layer,
    "edge-evaluation": _edge_evaluation,
}
