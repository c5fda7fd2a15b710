"""Times of a step that a remedy could take away, window by window; judges none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from trainload.analyse.attribution.host_times import is_torchs, others_of
from trainload.analyse.attribution.types import RankLayers, WindowTraits

if TYPE_CHECKING:
    import polars as pl

DISPATCH_S = 8e-6
"""What an operation takes on a CPU however little it has to do, its nested ones included."""
DIVIDED_FROM_S = 4e-5
"""Of an operation on a CPU what more threads hardly shorten: there is too little to divide."""
_HOST = ("host", "update_idle", "script_idle", "python", "remainder")
"""Where the host works while the device waits; waiting for input may be no work of its own."""


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Seconds of one step of a window."""

    steps: int
    step_s: float
    times_s: Mapping[str, float]

    def get(self, name: str) -> float:
        """An amount; 0 where there is none of it."""
        return self.times_s.get(name, 0.0)


def window_amounts(rank: RankLayers) -> tuple[Amounts, ...]:
    """The amounts of every window, one for the whole where its rows are not known."""
    import polars as pl

    if rank.rows.is_empty():
        return (_whole(rank, 1, rank.step_s, _by_part(rank.parts), 0.0, WindowTraits()),)
    found = []
    traits = rank.traits.windows or {}
    for (window,), rows in rank.rows.group_by("window", maintain_order=True):
        assert isinstance(window, int)
        steps = rows["step"].n_unique()
        own = traits.get(window, WindowTraits())
        times = _usual(rows)
        worked = rows.filter(pl.col("kind").is_in(["layer", "loss"]))["calls"].sum()
        step_s = float(rows["time_s"].sum()) / steps
        found.append(_whole(rank, steps, step_s, times, int(worked) / steps, own))
    return tuple(found)


def _usual(rows: pl.DataFrame) -> dict[str, float]:
    """Seconds of each amount: the median of the window's steps, one of which may be disturbed."""
    import polars as pl

    keys = ("step", "kind", "root", "phase", "cause")
    sums = rows.group_by(keys, maintain_order=True).agg(pl.col("time_s").sum())
    steps: dict[int, dict[str, float]] = {}
    for step, kind, root, phase, cause, time_s in sums.iter_rows():
        times = steps.setdefault(step, {})
        name = _bucket(kind, root, phase, cause)
        times[name] = times.get(name, 0.0) + time_s
    names = dict.fromkeys(name for times in steps.values() for name in times)
    return {name: median(times.get(name, 0.0) for times in steps.values()) for name in names}


def _bucket(kind: str, root: str | None, phase: str | None, cause: str | None) -> str:
    if kind == "input" or cause == "input":
        return "input"
    if cause == "synchronise":
        return "synchronise"
    if phase == "update":
        return "update_idle" if kind == "idle" else "update"
    if kind == "idle":
        return "host" if root is not None or phase is not None else "script_idle"
    return {"layer": "work", "loss": "work"}.get(kind, kind)


def _by_part(parts: Mapping[str, float]) -> dict[str, float]:
    names = {
        "forward": "work", "backward": "work", "loss": "work", "idle: host": "host",
        "idle: input": "input", "idle: synchronise": "synchronise",
    }  # fmt: skip
    times: dict[str, float] = {}
    for part, time_s in parts.items():
        name = names.get(part, part)
        times[name] = times.get(name, 0.0) + time_s
    return times


def _whole(
    rank: RankLayers,
    steps: int,
    step_s: float,
    times: Mapping[str, float],
    worked: float,
    traits: WindowTraits,
) -> Amounts:
    on_cpu = rank.device.startswith("cpu")
    amounts = dict(times)
    work = times.get("work", 0.0)
    amounts["compute"] = work + times.get("update", 0.0)
    amounts["step"] = step_s
    worked_s = step_s - times.get("input", 0.0)
    amounts["host_time"] = worked_s if on_cpu else sum(times.get(name, 0.0) for name in _HOST)
    amounts["update"] = times.get("update", 0.0) + times.get("update_idle", 0.0)
    amounts["script"] = times.get("script", 0.0) + times.get("script_idle", 0.0)
    python_s, (others, torchs) = times.get("python", 0.0), _split_python(rank)
    amounts["python"] = times.get("remainder", 0.0) + others * python_s
    amounts["host"] = times.get("host", 0.0) + torchs * python_s
    amounts["gradientless"] = traits.gradientless_fraction * step_s
    amounts["full_precision"] = traits.full_precision_fraction * step_s
    if on_cpu:
        copied_s = traits.copies_fraction * step_s
        amounts["copy"] = copied_s + times.get("copy", 0.0)
        amounts["script"] = max(amounts["script"] - copied_s, 0.0)
        amounts["host"] += min(worked * DISPATCH_S, work)
        amounts["divisible"] = max(work - worked * DIVIDED_FROM_S, 0.0)
    return Amounts(steps=steps, step_s=step_s, times_s=amounts)


def _split_python(rank: RankLayers) -> tuple[float, float]:
    """Of Python between torch's calls, what is neither torch's nor the tracing's, and torch's own.

    No untraced step has the rest.
    """
    python = [one for one in rank.host if one.part == "python"]
    whole_s = sum(one.time_s for one in python)
    if not whole_s:
        return 1.0, 0.0
    others_s = sum(one.time_s for one in others_of(python))
    return others_s / whole_s, sum(one.time_s for one in python if is_torchs(one)) / whole_s
