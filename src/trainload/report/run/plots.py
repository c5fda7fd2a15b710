"""Which columns are drawn together, and their curves as data for the page's script.

Curves come ready from `analyse`; here they get an axis, a unit for people, and a place.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainload.analyse import (
    Curve,
    CurveSet,
    RunSummary,
    epoch_curves,
    loss_curve,
    sample_curves,
    step_curves,
    tells_losses,
)
from trainload.analyse.attribution.types import RunLayers
from trainload.analyse.curves import MOST_POINTS
from trainload.analyse.summary import pauses_of
from trainload.record import Run
from trainload.report.layers.plots import (
    MOST_MODULES,
    MOST_MODULES_BESIDE,
    MOST_RANKS,
    RankPlots,
    curves_data,
    grid_data,
    icicle_data,
    layer_curves,
    traced_steps,
)
from trainload.report.wording import clean_text, render_name
from trainload.units import unit_of

MOST_CORES = 8
"""With more cores than this, lines by core cannot be told apart: a heat map shows them."""
HEAT_POINTS = 240
_CORE = re.compile(r"host_cpu\d+_")
_TRAINING_PHASES = ("train", "script")
_LOAD_LABEL = "share of capacity"
_SCORES = (
    "validation_accuracy",
    "validation_f1_weighted",
    "validation_f1_macro",
    "validation_top5_accuracy",
)
_TOP_N = re.compile(r"validation_top\d+_accuracy")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One plot: its title, its vertical axis and the columns it draws."""

    title: str
    axis: str
    columns: tuple[str, ...]
    percent: bool = False
    heat: bool = False
    """A row of colours for each column, where lines would be too many."""


@dataclass(frozen=True)
class _Group:
    title: str
    axis: str
    holds: Callable[[str], bool]
    percent: bool = False


def _in_unit(unit: str) -> Callable[[str], bool]:
    return lambda column: unit_of(column) == unit


def _is_fraction(pattern: str) -> Callable[[str], bool]:
    found = re.compile(pattern)
    return lambda c: unit_of(c) == "fraction" and found.search(c) is not None


_GROUPS = (
    _Group("CPU load by core", _LOAD_LABEL, _is_fraction(r"^host_cpu\d+_|tegra_cpu\d"), True),
    _Group("Memory load", _LOAD_LABEL, _is_fraction(r"memory|ram|swap"), True),
    _Group("CPU load", _LOAD_LABEL, _is_fraction(r"cpu"), True),
    _Group("GPU load", _LOAD_LABEL, _is_fraction(r"gpu|gr3d"), True),
    _Group("Other loads", _LOAD_LABEL, _in_unit("fraction"), True),
    _Group("Memory in use", "bytes", _in_unit("bytes")),
    _Group("Power", "W", _in_unit("W")),
    _Group("Temperature", "°C", _in_unit("°C")),
    _Group("Clocks by core", "Hz", lambda c: unit_of(c) == "Hz" and bool(_CORE.match(c))),
    _Group("Clocks", "Hz", _in_unit("Hz")),
    _Group("Voltage", "V", _in_unit("V")),
    _Group("Current", "A", _in_unit("A")),
    _Group("Threads and processes", "count", _in_unit("count")),
)
"""A column joins the first group that holds it; bits and unknown units are not drawn."""
_ORDER = ("CPU load", "GPU load", "Memory load", "CPU load by core")


def choose_figures(columns: Iterable[str]) -> list[Figure]:
    """Columns grouped into plots by quantity and unit; loads first."""
    held: dict[str, list[str]] = {group.title: [] for group in _GROUPS}
    for column in columns:
        group = next((g for g in _GROUPS if g.holds(column)), None)
        if group is not None:
            held[group.title].append(column)
    first = {title: at for at, title in enumerate(_ORDER)}
    ordered = sorted(_GROUPS, key=lambda group: first.get(group.title, len(first)))
    return [_figure(group, held[group.title]) for group in ordered if held[group.title]]


def _figure(group: _Group, columns: Sequence[str]) -> Figure:
    by_core = [c for c in columns if _CORE.match(c)]
    return Figure(
        title=group.title,
        axis=group.axis,
        columns=tuple(columns),
        percent=group.percent,
        heat=len(by_core) > MOST_CORES,
    )


@dataclass(frozen=True, kw_only=True)
class RunPlots:
    """A run's plots: the figures in order, and the data the script draws them from."""

    loads: tuple[Figure, ...]
    training: tuple[Figure, ...]
    speed: tuple[Figure, ...]
    bands: tuple[str, ...]
    """Names of the shaded stretches, in the order of their colours."""
    data: Mapping[str, Any]
    """`figures` stand in the order of `training`, `speed`, `loads`, then those of `layers`."""
    layers: tuple[RankPlots, ...] = ()
    """What is drawn of the attribution, by rank."""


def plot_run(
    run: Run, summary: RunSummary, layers: RunLayers | None = None, *, points: int = MOST_POINTS
) -> RunPlots:
    """A run's figures and their data; those of layers only where it has an attribution.

    No curve has more than so many points.
    """
    unit, seconds = _time_unit(summary.duration_s)
    figures = choose_figures(summary.columns)
    lines = [c for f in figures if not f.heat for c in f.columns]
    heats = [c for f in figures if f.heat for c in f.columns]
    samples = sample_curves(run.samples, run.steps, lines, points=points)
    cores = sample_curves(run.samples, run.steps, heats, windows=(), points=HEAT_POINTS)
    present = {curve.column for curve in (*samples.curves, *cores.curves)}
    loads = tuple(f for f in figures if any(c in present for c in f.columns))
    sets = [
        (
            loss_curve(run.steps, told=tells_losses(run.manifest), points=points),
            Figure(title="Training loss", axis="loss", columns=("loss",)),
        ),
        *(
            (epoch_curves(run.epochs, run.steps, columns), figure)
            for columns, figure in _epoch_figures(run.epochs.columns)
        ),
    ]
    rates = step_curves(run.steps, batch_size=run.manifest.batch_size, points=points)
    told = {curve.column for curve in rates.curves}
    speed = tuple(figure for figure in _RATES if told.issuperset(figure.columns))
    training = tuple(figure for curves, figure in sets if curves.curves)
    sets += [(rates, figure) for figure in speed]
    bands, names = _bands(run, seconds)
    grids: list[dict[str, Any]] = []
    figure_data = []
    for curves, figure in sets:
        if not curves.curves:
            continue
        figure_data.append(_figure_data(figure, curves, len(grids)))
        grids += _grid_data(curves, seconds)
    after = len(grids) + len(samples.grids)
    figure_data += [
        _figure_data(f, cores, after) if f.heat else _figure_data(f, samples, len(grids))
        for f in loads
    ]
    grids += [*_grid_data(samples, seconds), *_grid_data(cores, seconds)]
    trees: list[dict[str, Any]] = []
    ranks = _plot_layers(run, layers, seconds, grids, figure_data, trees)
    return RunPlots(
        loads=loads,
        training=training,
        speed=speed,
        bands=names,
        data={
            "time": f"time since the start ({unit})",
            "grids": grids,
            "figures": figure_data,
            "bands": bands,
            "trees": trees,
        },
        layers=ranks,
    )


def _plot_layers(
    run: Run,
    layers: RunLayers | None,
    seconds: float,
    grids: list[dict[str, Any]],
    figures: list[dict[str, Any]],
    trees: list[dict[str, Any]],
) -> tuple[RankPlots, ...]:
    """Append grids, figures and icicles of each rank; answers where they stand."""
    found = []
    for at, rank in enumerate(layers.ranks[:MOST_RANKS] if layers is not None else ()):
        steps = traced_steps(rank)
        curves = layer_curves(rank, steps)
        found.append(
            RankPlots(
                titles=tuple(c.title for c in curves),
                first_figure=len(figures),
                tree=len(trees),
            )
        )
        figures += [curves_data(c, len(grids)) for c in curves]
        grids.append(grid_data(steps, run.steps, seconds))
        trees.append(icicle_data(rank, MOST_MODULES if at == 0 else MOST_MODULES_BESIDE))
    return tuple(found)


_RATES = (
    Figure(title="Step time", axis="s", columns=("step_s",)),
    Figure(title="Throughput", axis="examples/s", columns=("examples_per_s",)),
)


def series_names(figure: Mapping[str, Any]) -> list[str]:
    """Names of the curves of one entry of `RunPlots.data["figures"]`."""
    return [series["name"] for series in figure["series"]]


def _epoch_figures(columns: Sequence[str]) -> list[tuple[Sequence[str], Figure]]:
    losses = ("train_loss", "validation_loss")
    scores = (*_SCORES, *(c for c in columns if _TOP_N.fullmatch(c) and c not in _SCORES))
    return [
        (losses, Figure(title="Loss by epoch", axis="loss", columns=losses)),
        (scores, Figure(title="Validation by epoch", axis="score", columns=scores, percent=True)),
    ]


def _figure_data(figure: Figure, curves: CurveSet, first_grid: int) -> dict[str, Any]:
    shown = [c for c in curves.curves if c.column in figure.columns]
    unit, factor = _axis_unit(figure.axis, shown)
    return {
        "title": figure.title,
        "axis": unit,
        "percent": figure.percent,
        "heat": figure.heat,
        "series": [
            {
                "name": render_name(curve.column),
                "grid": first_grid + curve.grid,
                "raw": _scaled(curve.raw, factor),
                "average": {str(w): _scaled(v, factor) for w, v in curve.averages.items()},
            }
            for curve in shown
        ],
    }


def _grid_data(curves: CurveSet, seconds: float) -> list[dict[str, Any]]:
    return [
        {
            "time": [None if t is None else round(t / seconds, 5) for t in grid.times_s],
            "iteration": grid.iterations,
        }
        for grid in curves.grids
    ]


def _scaled(values: Sequence[float | None], factor: float) -> list[float | None]:
    if factor == 1:
        return list(values)
    return [None if v is None else float(f"{v / factor:.5g}") for v in values]


def _axis_unit(axis: str, curves: Sequence[Curve]) -> tuple[str, float]:
    """A unit for people on the axis, and what it is worth in the columns' unit."""
    units = {
        "bytes": (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)),
        "Hz": (("GHz", 1e9), ("MHz", 1e6)),
        "s": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)),
    }
    largest = max((v for c in curves for v in c.raw if v is not None), default=0.0)
    for unit, factor in units.get(axis, ()):
        if largest >= factor:
            return unit, factor
    return axis, 1


def _time_unit(duration_s: float | None) -> tuple[str, float]:
    if duration_s is not None and duration_s > 6 * 3600:
        return "h", 3600
    return ("min", 60) if duration_s is not None and duration_s > 600 else ("s", 1)


def _bands(run: Run, seconds: float) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Shaded stretches: phases other than training, and the instrument's pauses."""
    spans = [
        (clean_text(phase.name), phase.start_s, phase.end_s)
        for phase in run.manifest.phases
        if phase.name not in _TRAINING_PHASES and phase.end_s is not None
    ]
    spans += [
        ("instrument paused, no samples", p.start_s, p.end_s) for p in pauses_of(run.manifest)
    ]
    names = tuple(dict.fromkeys(name for name, _, _ in spans))
    bands = [
        {
            "kind": names.index(name),
            "start": round(start / seconds, 5),
            "end": round(end / seconds, 5),
        }
        for name, start, end in spans
    ]
    return bands, names
