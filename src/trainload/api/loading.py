"""`trainload.load` and `load_all`: runs as objects with tables, summaries and a short face.

Reads run directories; nothing of a run is read before it is asked for.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, overload

from trainload import record
from trainload.errors import HardwareFileError, TrainloadError
from trainload.record.figures import RunFigures, load_figures, manifest_sha256, save_figures
from trainload.record.layout import EVENTS, MANIFEST

if TYPE_CHECKING:
    import polars as pl

    from trainload.analyse import RunSummary
    from trainload.analyse.attribution import RunLayers
    from trainload.hardware.inventory import Machine
    from trainload.hardware.limits import MachineLimits
    from trainload.record import Outcome

ALL = "*"


class Run(record.Run):
    """One run: `steps`, `epochs`, `samples` and `layers` are polars frames, `summary` is typed.

    Times in the tables are seconds since the run's start.
    """

    @property
    def outcome(self) -> Outcome | None:
        """completed, failed, out_of_memory, killed, timed_out, interrupted; None while it runs."""
        return self.manifest.outcome

    @cached_property
    def summary(self) -> RunSummary:
        """The run in figures: times, throughput, quality, loads, energy, and what to beware of."""
        from trainload.analyse import summarise_run

        return summarise_run(self)

    @cached_property
    def attribution(self) -> RunLayers | None:
        """Where each step went, with the module tree; None where layers were not traced."""
        from trainload.analyse.attribution import load_run_layers

        return load_run_layers(self, limits=_kept_limits(self.manifest.machine))

    @cached_property
    def layers(self) -> pl.DataFrame:
        """One row for each part of each traced step; no rows where layers were not traced."""
        import polars as pl

        from trainload.analyse.attribution import ROW_COLUMNS

        found = self.attribution
        if found is None:
            return pl.DataFrame(schema=dict.fromkeys(ROW_COLUMNS, pl.Null))
        return pl.concat([rank.rows for rank in found.ranks])

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.outcome or 'still running'})"

    def _repr_html_(self) -> str:
        from trainload.report import render_card

        return render_card(self.manifest, self.summary)


class Runs(Sequence[Run]):
    """Several runs, each read when it is looked at."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._opened: dict[Path, Run] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where they lie; looking reads none."""
        return self._paths

    def __len__(self) -> int:
        return len(self._paths)

    @overload
    def __getitem__(self, position: int) -> Run: ...
    @overload
    def __getitem__(self, position: slice) -> Runs: ...
    def __getitem__(self, position: int | slice) -> Run | Runs:
        if isinstance(position, slice):
            return Runs(self._paths[position])
        path = self._paths[position]
        if path not in self._opened:
            self._opened[path] = load(path)
        return self._opened[path]

    def __iter__(self) -> Iterator[Run]:
        return (self[position] for position in range(len(self)))

    def table(self) -> pl.DataFrame:
        """One row a run with every headline figure; null where a run has none.

        A run that cannot be read has its place in the table, and `problem` says why.
        """
        from trainload.analyse import headline_row, headline_table

        rows = []
        for position, path in enumerate(self._paths):
            try:
                run = self[position]
                rows.append(headline_row(run, run.summary))
            except TrainloadError as error:
                rows.append({"path": str(path), "run_id": path.name, "problem": str(error)})
        return headline_table(rows)

    def __repr__(self) -> str:
        return f"Runs({len(self)})"

    def _repr_html_(self) -> str:
        html: str = self.table()._repr_html_()
        return html


def _kept_limits(machine: Machine | None) -> MachineLimits | None:
    """What such a machine was measured to reach; None where that is not kept, or is damaged.

    A damaged file of this reader says nothing of the run; `detect --measure` names it.
    """
    from trainload.hardware.limits import find_limits

    try:
        return None if machine is None else find_limits(machine)
    except HardwareFileError:
        return None


def load(path: str | Path, *, seal: bool = True) -> Run:
    """A run directory as a run; RecordError where it is none.

    A run that has ended is sealed first, unless the folder may not be written or `seal` is False.
    """
    lines = Path(path) / EVENTS
    fresh = lines.exists()
    found = record.open_run(Path(path), seal=seal)
    run = Run(found.path, found.manifest)
    if fresh and not lines.exists():
        keep_figures(run)
    return run


def keep_figures(run: Run) -> RunFigures:
    """Work out a run's figures and leave them in its directory, where that may be written."""
    figures = _figures(run)
    if not run.running:
        save_figures(run.path, figures)
    return figures


def _figures(run: Run) -> RunFigures:
    from trainload.analyse.study.figures import figures_of

    return figures_of(run, run.summary, manifest_sha256(run.path))


def load_run_figures(path: Path, *, keep: bool = True) -> RunFigures:
    """A run's figures as kept at sealing; made again where they are missing or older than it.

    Without `keep` the run is left as it is: neither sealed nor given figures.
    """
    found = load_figures(path)
    if found is not None:
        return found
    if not keep:
        return _figures(load(path, seal=False))
    run = load(path)
    return load_figures(path) or keep_figures(run)


def load_all(where: str | Path | Iterable[str | Path] = "runs") -> Runs:
    """All runs that a folder holds, a pattern such as `runs/*` matches, or a list names.

    In order of their names, which begin with the model and the time; none is read yet. What is no
    run directory is passed over in a folder or a pattern, and kept where a list names it; a pattern
    in a list is one.
    """
    if not isinstance(where, str | Path):
        return Runs(found for one in where for found in _of_list(Path(one)))
    text = str(where)
    if (Path(text) / MANIFEST).is_file():
        return Runs([Path(text)])
    pattern = f"{glob.escape(text)}/{ALL}" if Path(text).is_dir() else text
    return Runs(_matches(pattern))


def _of_list(path: Path) -> list[Path]:
    is_pattern = glob.has_magic(str(path)) and not path.exists()
    return _matches(str(path)) if is_pattern else [path]


def _matches(pattern: str) -> list[Path]:
    found = sorted(Path(path) for path in glob.glob(pattern))  # noqa: PTH207 - may be absolute
    return [path for path in found if (path / MANIFEST).is_file()]
