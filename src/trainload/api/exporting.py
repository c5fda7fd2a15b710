"""Runs and studies written for other programs: tables, images of plots, files of other tools.

from trainload.api.exporting import export

export("studies/width-and-batch", to="latex", out="tables")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.api.analysing import analyse
from trainload.api.loading import Run, load, load_all, load_run_figures
from trainload.errors import RecordError, UsageError
from trainload.record.layout import MANIFEST

if TYPE_CHECKING:
    import polars as pl

    from trainload.report.export import Plot

TABLES = ("csv", "parquet", "markdown", "latex")
IMAGES = ("png", "svg")
TOOLS = ("mlflow", "tensorboard", "wandb", "openmetrics")
KINDS = (*TABLES, *IMAGES, *TOOLS)


def export(
    place: str | Path,
    *,
    to: str,
    out: str | Path,
    plot: str | None = None,
    metric: str | None = None,
) -> list[Path]:
    """Write a run, a study's folder or a folder of runs in another form; the files, or folders.

    A run's tables are steps, epochs, samples, layers and figures; a study's are those of `analyse`,
    of one `metric` where that is named. Images need the name of a `plot`. What stood there under
    the same name is replaced. UsageError for an unknown kind or plot, MissingPart without the
    library it needs.
    """
    if to not in KINDS:
        raise UsageError(f"--to {to}: no such kind; known: {', '.join(KINDS)}")
    if to in IMAGES and plot is None:
        names = ", ".join(one.name for one in plots_of(place))
        raise UsageError(f"--to {to} needs --plot NAME; {place} has: {names}")
    if plot is not None and to not in IMAGES:
        raise UsageError(f"--plot is for images; say --to {' or '.join(IMAGES)}")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"cannot make {folder}: {error.strerror}") from error
    if to in TOOLS:
        return _export_to_tool(place, to, folder)
    if plot is not None:
        return [_export_plot(place, plot, folder / f"{plot}.{to}")]
    return _export_tables(place, to, folder, metric)


def plots_of(place: str | Path) -> list[Plot]:
    """Every plot that can be drawn of a run, or of the cells of a study or folder of runs."""
    from trainload.report.export import cell_plots, run_plots

    if _is_run(place):
        run = load(place)
        return run_plots(run, run.summary, run.attribution)
    return cell_plots(analyse(place).cells)


def _export_tables(place: str | Path, to: str, folder: Path, metric: str | None) -> list[Path]:
    from trainload.report.export import TABLE_KINDS, table_bytes

    frames: Mapping[str, pl.DataFrame]
    frames = _run_frames(load(place)) if _is_run(place) else _study_frames(place, metric)
    written = []
    for name, frame in frames.items():
        path = folder / f"{name}.{TABLE_KINDS[to]}"
        _write(path, table_bytes(frame, to, f"{Path(place).name}: {name}"))
        written.append(path)
    return written


def _study_frames(place: str | Path, metric: str | None) -> dict[str, pl.DataFrame]:
    """The tables of `analyse`; with a metric the cells are of that one alone."""
    frames = analyse(place, metric=metric).frames()
    if metric is not None:
        frames["cells"] = frames["cells"].filter(frames["cells"]["metric"] == metric)
    return frames


def _run_frames(run: Run) -> dict[str, pl.DataFrame]:
    """The tables of one run; those without a row are left out."""
    import polars as pl

    figures = load_run_figures(run.path).metrics
    frames = {
        "figures": pl.DataFrame(
            {"figure": list(figures), "value": list(figures.values())},
            schema={"figure": pl.String, "value": pl.Float64},
        ),
        "steps": run.steps,
        "epochs": run.epochs,
        "samples": run.samples,
        "layers": run.layers,
    }
    return {name: frame for name, frame in frames.items() if frame.height}


def _export_plot(place: str | Path, name: str, path: Path) -> Path:
    from trainload.report.export import save_image

    known = {one.name: one for one in plots_of(place)}
    if name not in known:
        raise UsageError(f"--plot {name}: {place} has: {', '.join(known)}")
    save_image(known[name], path)
    return path


def _export_to_tool(place: str | Path, tool: str, folder: Path) -> list[Path]:
    from trainload.integrations.exporters import EXPORTERS, tell_run
    from trainload.study.ledger import RUNS

    inner = Path(place) / RUNS
    paths = load_all(inner if inner.is_dir() else place).paths
    if not paths:
        raise UsageError(f"{place} holds no runs; name a run, a study's folder or one of runs")
    told = [tell_run(load(path), load_run_figures(path)) for path in paths]
    return EXPORTERS[tool](told, folder)


def _is_run(place: str | Path) -> bool:
    return (Path(place) / MANIFEST).is_file()


def _write(path: Path, content: bytes) -> None:
    from trainload.files import write_whole

    try:
        write_whole(path, content)
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error
