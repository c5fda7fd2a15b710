"""What two sides were asked to be, and under which circumstances: only what differs, loudest first.

Takes figures and manifests, gives facts; says nothing of what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainload.analyse.compare.cells import CONTENT
from trainload.analyse.compare.values import ComparedRun, FactDifference, FactDifferences, Side
from trainload.analyse.study.tidy import level_text
from trainload.record import Manifest
from trainload.record.figures import RunFigures
from trainload.units import MISSING, render_percent, render_value

_LOUD_CONFIGURATION = (
    "model", "framework", "precision", "batch_size", "setting", "threads", "processes", "optimizer",
    CONTENT,
)  # fmt: skip
_LOUD_ENVIRONMENT = (
    "throttled", "quota", "other load", "swapped", "clock", "obtained", "framework_version",
    "software", "driver", "accelerators", "machine", "variable", "trainload",
)  # fmt: skip
"""Beginnings of names, loudest first; what is not named comes last."""
_LETTERS = 12
"""Of a digest that are shown."""
_MOST = 4
"""Values of one side that are listed."""
NEAR_LOAD = 0.1
"""Circumstances that were measured differ from this on: loads and shares by a tenth of all…"""
NEAR_CLOCK = 0.05
"""…and clocks by a twentieth of their own."""


def compare_configuration(a: Side, b: Side) -> FactDifferences:
    """What the runs were asked to be."""

    def told(run: ComparedRun) -> dict[str, Any]:
        found = {**run.figures.factors, **run.figures.facts}
        found.pop("framework_version", None)
        if found.get(CONTENT) is not None:
            found[CONTENT] = str(found[CONTENT])[:_LETTERS]
        return found

    return _differences(list(map(told, a.runs)), list(map(told, b.runs)), _LOUD_CONFIGURATION)


def compare_environment(a: Side, b: Side) -> FactDifferences:
    """Versions, machine and circumstances."""
    left, right = ([dict(run.surroundings) for run in side.runs] for side in (a, b))
    measured = [name for name in _names((*left, *right)) if _is_measured((*left, *right), name)]
    near = 0
    means: dict[str, tuple[str, str]] = {}
    for name in measured:
        one, other = _mean(left, name), _mean(right, name)
        if _is_near(name, one, other):
            near += 1
        else:
            means[name] = _render(name, one), _render(name, other)
        for found in (*left, *right):
            found.pop(name, None)
    plain = _differences(left, right, _LOUD_ENVIRONMENT)
    told = [FactDifference(name=n, a=texts[0], b=texts[1]) for n, texts in means.items()]
    both = sorted([*told, *plain.differing], key=lambda d: _loudness(d.name, _LOUD_ENVIRONMENT))
    return FactDifferences(differing=tuple(both), equal=plain.equal + near)


def surroundings_of(
    manifest: Manifest, figures: RunFigures, throttled_fraction: float | None = None
) -> dict[str, Any]:
    """The circumstances of a run by name; numbers are measured, texts are told."""
    return {
        **dict(_measured_circumstances(figures, throttled_fraction)),
        **{name: value for name, value in _told_circumstances(manifest) if value is not None},
    }


def _told_circumstances(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    for name, version in manifest.software.items():
        if name == "framework_version":
            yield name, version
        elif name != "trainload":
            yield f"software {name}", version
    yield "trainload version", manifest.trainload_version
    obtained, machine = manifest.setting.obtained, manifest.machine
    if obtained is not None:
        yield "obtained threads", _text(obtained.threads)
        yield "obtained cores", _text(obtained.cores)
        yield "obtained device", obtained.device
    if machine is not None:
        for name in (
            "cpu_model", "architecture", "logical_cores", "physical_cores", "allowed_cores",
            "cpu_quota_cores", "memory_total_bytes", "memory_limit_bytes", "swap_total_bytes",
            "operating_system", "kernel",
        ):  # fmt: skip
            yield f"machine {name}", _text(getattr(machine, name))
    resolved = manifest.setting.resolved
    if resolved is not None and resolved.accelerators:
        yield "accelerators", ", ".join(one.name for one in resolved.accelerators)
        yield "driver", ", ".join(sorted({str(one.driver) for one in resolved.accelerators}))
    for name, value in manifest.environment.items():
        yield f"variable {name}", value


def _measured_circumstances(
    figures: RunFigures, throttled_fraction: float | None
) -> Iterator[tuple[str, float]]:
    metrics = figures.metrics
    host, own = metrics.get("host_cpu_load_fraction"), metrics.get("run_cpu_load_fraction")
    if host is not None and own is not None:
        yield "other load, share of all cores", max(host - own, 0.0)
    if throttled_fraction is not None:
        yield "throttled, share of samples", throttled_fraction
    held, training_s = metrics.get("cgroup_cpu_throttled_s"), metrics.get("training_s")
    if held is not None and training_s:
        yield "quota held it back, share of training", min(held / training_s, 1.0)
    clocks: dict[str, list[float]] = {}
    for name, value in metrics.items():
        if name.endswith("_clock_hz"):
            # Cores one by one would be many rows of the same story.
            group = "processor" if "_cpu" in name else name.removesuffix("_clock_hz")
            clocks.setdefault(group, []).append(value)
    for group, values in clocks.items():
        yield f"clock of {group}", sum(values) / len(values)


def _text(value: Any) -> str | None:
    """Told facts are texts, so that only measured ones are numbers."""
    return None if value is None else level_text(value)


def _is_measured(runs: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(isinstance(run.get(name), float) for run in runs)


def _mean(runs: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [value for run in runs if isinstance(value := run.get(name), float)]
    return sum(values) / len(values) if values else None


def _is_near(name: str, one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return True  # what only one side's meters tell is no difference of circumstances
    if name.startswith("clock"):
        return abs(one - other) <= NEAR_CLOCK * max(one, other)
    return abs(one - other) <= NEAR_LOAD


def _render(name: str, value: float | None) -> str:
    return render_value("_hz", value) if name.startswith("clock") else render_percent(value)


def _differences(
    left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]], loud: Sequence[str]
) -> FactDifferences:
    differing, equal = [], 0
    for name in _names((*left, *right)):
        one, other = _levels(left, name), _levels(right, name)
        if one == other:
            equal += 1
        else:
            differing.append(FactDifference(name=name, a=_listed(one), b=_listed(other)))
    differing.sort(key=lambda found: _loudness(found.name, loud))
    return FactDifferences(differing=tuple(differing), equal=equal)


def _names(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run))


def _levels(runs: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    texts = {MISSING if run.get(name) is None else level_text(run[name]) for run in runs}
    return tuple(sorted(texts))


def _listed(levels: Sequence[str]) -> str:
    more = f" and {len(levels) - _MOST} more" if len(levels) > _MOST else ""
    return " | ".join(levels[:_MOST]) + more


def _loudness(name: str, loud: Sequence[str]) -> tuple[int, str]:
    place = next((at for at, word in enumerate(loud) if name.startswith(word)), len(loud))
    return place, name
