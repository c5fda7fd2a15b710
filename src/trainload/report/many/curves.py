"""Curves of many runs as compact data for the page's script: thinned, packed, bounded in size.

Thinning is `analyse`'s; here columns are chosen and numbers are packed into text.
"""

from __future__ import annotations

import base64
import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.analyse.columns import metered_quantities
from trainload.analyse.thinning import ThinColumn, ThinSeries, thin_samples, thin_steps
from trainload.errors import TrainloadError
from trainload.record import Run
from trainload.report.many.view import ManyRuns, ShownRun
from trainload.report.wording import clean_text, render_name
from trainload.units import unit_of

if TYPE_CHECKING:
    import numpy as np

BUDGET_BYTES = 6_500_000
"""Of all curves of a page, as text."""
MOST_POINTS, FEWEST_POINTS = 1000, 60
CORE_POINTS = 100
MOST_COLUMNS = 20
"""Drawn of one run beside its cores."""
THREADS = 2
_MISSING = 65535
_POINT_BYTES = 8
"""Lowest, mean and highest of one point as text: three times two bytes in base64."""
_STEP_COLUMNS = ("step_s", "examples_per_s", "loss")
_WANTED = (
    r"gpu\d+_load_fraction|tegra_gpu_load_fraction",
    r"gpu\d+_memory_used_bytes",
    r"host_cpu_load_fraction",
    r"run_cpu_load_fraction",
    r"(host|tegra)_ram_used_bytes",
    r"run_rss_bytes",
    r".*_power_w",
    r".*_celsius",
    r"(host|tegra)_swap_used_bytes",
    r".*_load_fraction|.*_used_fraction",
)
"""Columns that are drawn over each other, in this order; the last are of meters not known here."""
_CORE = re.compile(r"(?:host|tegra)_cpu(\d+)_load_fraction")
_REDUNDANT = re.compile(r"(host_ram|host_swap|cgroup_\w+|gpu\d+_memory)_(load|used)_fraction")


@dataclass(frozen=True, kw_only=True)
class ManyCurves:
    """What the script draws, and what has to be said of it."""

    quantities: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    points: int
    """Most points of a curve."""
    readings: int
    """Of the longest series before thinning."""
    typical: float
    """Readings of a run's samples in the median."""
    left_out: int
    """Most columns of one run for which there was no room."""
    problems: Sequence[tuple[str, str]]
    """Runs whose tables cannot be read, and why."""


def curves_of(many: ManyRuns) -> ManyCurves:
    """The curves of every run that can be read; the more runs and columns, the fewer points."""
    chosen = [columns_of(shown.run) if shown.run else ([], [], 0) for shown in many.runs]
    lines = sum(len(columns) + len(_STEP_COLUMNS) for columns, _, _ in chosen)
    points = BUDGET_BYTES // (_POINT_BYTES * max(1, lines))
    points = max(FEWEST_POINTS, min(MOST_POINTS, points))
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(_thinned, many.runs, chosen, itertools.repeat(points)))
    names: dict[str, int] = {}
    for columns, _, _ in chosen:
        for column in columns:
            names.setdefault(column, len(names))
    ordered = sorted(names, key=lambda column: (_rank(column), names[column]))
    keys = {column: at for at, column in enumerate((*ordered, *_STEP_COLUMNS))}
    samples = [one.samples for one in found if one.samples is not None]
    series = [s for one in found for s in (one.samples, one.steps) if s is not None]
    return ManyCurves(
        quantities=[_quantity(column, many) for column in keys],
        runs=[one.packed(keys) for one in found],
        points=points,
        readings=max((s.readings for s in series), default=0),
        typical=statistics.median([s.readings for s in samples] or [0]),
        left_out=max((left for _, _, left in chosen), default=0),
        problems=[(one.key, one.problem) for one in found if one.problem],
    )


def columns_of(run: Run) -> tuple[list[str], list[str], int]:
    """Columns of a run that are drawn, those of its cores, and how many more there would be."""
    states = [
        name
        for name, quantity in metered_quantities(run.manifest.meters).items()
        if quantity.cumulative is not True and quantity.provenance != "unavailable"
    ]
    cores = sorted((c for c in states if _CORE.fullmatch(c)), key=_core_number)
    wanted = [c for c in states if _rank(c) < len(_WANTED) and c not in cores]
    wanted = sorted((c for c in wanted if not _REDUNDANT.fullmatch(c)), key=_rank)
    return wanted[:MOST_COLUMNS], cores, max(0, len(wanted) - MOST_COLUMNS)


def _core_number(column: str) -> int:
    found = _CORE.fullmatch(column)
    return int(found[1]) if found else -1


def _rank(column: str) -> int:
    return next((at for at, p in enumerate(_WANTED) if re.fullmatch(p, column)), len(_WANTED))


def _quantity(column: str, many: ManyRuns) -> dict[str, Any]:
    name = render_name(column)
    title = name if name.startswith(("GPU", "CPU", "RAM")) else name[:1].upper() + name[1:]
    return {"title": title, "unit": unit_of(column) or "", "origin": _origin(column, many)}


def _origin(column: str, many: ManyRuns) -> str:
    """Where the readings come from, of the first run that says so."""
    if column in _STEP_COLUMNS:
        return "measured by the probe at each step of the first process"
    for shown in many.runs:
        found = metered_quantities(shown.run.manifest.meters).get(column) if shown.run else None
        if found is not None:
            source = f" from {found.source}" if found.source else ""
            return clean_text(f"{column}: {found.provenance}{source}")
    return clean_text(column)


@dataclass(frozen=True, kw_only=True)
class _Thinned:
    key: str
    samples: ThinSeries | None = None
    steps: ThinSeries | None = None
    cores: ThinSeries | None = None
    problem: str = ""

    def packed(self, keys: Mapping[str, int]) -> dict[str, Any]:
        return {
            "samples": _pack_series(self.samples, keys),
            "steps": _pack_series(self.steps, keys),
            "cores": _pack_cores(self.cores),
        }


def _thinned(shown: ShownRun, chosen: tuple[list[str], list[str], int], points: int) -> _Thinned:
    columns, cores, _ = chosen
    if shown.run is None:
        return _Thinned(key=shown.key)
    try:
        steps = shown.run.steps
        samples = shown.run.samples_of([*columns, *cores])
        return _Thinned(
            key=shown.key,
            samples=thin_samples(samples, steps, columns, points=points),
            steps=thin_steps(steps, points=points, batch_size=shown.run.manifest.batch_size),
            cores=thin_samples(samples, steps, cores, points=CORE_POINTS),
        )
    except TrainloadError as error:
        return _Thinned(key=shown.key, problem=str(error))


def _pack_series(series: ThinSeries | None, keys: Mapping[str, int]) -> dict[str, Any] | None:
    if series is None:
        return None
    thinned = series.readings > len(series.times_s)
    return {
        "t": _floats(series.times_s),
        "i": _floats(series.iterations),
        "per": round(series.per_point, 3),
        "n": series.readings,
        "cols": {
            str(keys[name]): _pack_column(column, thinned=thinned)
            for name, column in series.columns.items()
        },
    }


def _pack_column(column: ThinColumn, *, thinned: bool) -> dict[str, Any]:
    import numpy as np

    least, most = float(np.nanmin(column.low)), float(np.nanmax(column.high))
    packed: dict[str, Any] = {"r": [least, most], "s": column.seldom}
    if column.span is not None:
        packed["f"] = [float(f"{value:.6g}") for value in column.span]
    if least == most and not np.isnan(column.mean).any():
        return packed
    packed["m"] = _shorts(column.mean, least, most)
    if thinned:
        packed |= {"l": _shorts(column.low, least, most), "h": _shorts(column.high, least, most)}
    return packed


def _pack_cores(series: ThinSeries | None) -> dict[str, Any] | None:
    """Loads by core over time, a byte each: a heat map shows no more."""
    import numpy as np

    if series is None:
        return None
    table = np.stack([column.mean for column in series.columns.values()])
    levels = np.where(np.isnan(table), 255, np.clip(np.nan_to_num(table), 0, 1) * 250)
    return {
        "t": _floats(series.times_s),
        "names": [_core_number(column) for column in series.columns],
        "z": base64.b64encode(levels.round().astype("<u1").tobytes()).decode(),
    }


def _floats(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def _shorts(values: np.ndarray[Any, Any], least: float, most: float) -> str:
    """Values as parts of their range in 16 bits, finer than a screen; the last is missing."""
    import numpy as np

    share = (values - least) / ((most - least) or 1.0) * (_MISSING - 1)
    whole = np.where(np.isnan(share), _MISSING, np.round(np.nan_to_num(share)))
    return base64.b64encode(whole.astype("<u2").tobytes()).decode()
