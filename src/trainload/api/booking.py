"""`trainload.book`: the reference book from runs, tables and predictions, as files.

Finds and reads what it is told to; which runs are alike is analyse's to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import RecordError, TrainloadError, UsageError
from trainload.files import write_whole

if TYPE_CHECKING:
    from trainload.analyse.book import Book, BookEntry, BookRun
    from trainload.record import Run

SHIPPED = "Trainings measured for trainload"
OWN = "Reference book of trainings"
_MOST_WORKED_OUT = 100
"""Runs that keep no figures of their own yet, which take long to read."""
_NO_FIGURES = (
    f"it keeps no figures, nor do {_MOST_WORKED_OUT} before it: trainload seal, then again"
)


def book(places: str | Path | Iterable[str | Path] = (), *, out: str | Path | None = None) -> Book:
    """What trainings took, from folders of runs, tables of the book and predictions as JSON.

    Without a place, the entries shipped with trainload. With `out` the site and its tables are
    written there: index.html, sizes.html, book.csv, book.parquet, book.json.
    """
    from trainload.analyse.book import Book, load_shipped

    named = [places] if isinstance(places, str | Path) else list(places)
    if named:
        found = _collect([Path(place) for place in named])
    else:
        found = Book(title=SHIPPED, entries=load_shipped())
    if out is not None:
        write_book(found, Path(out))
    return found


def write_book(found: Book, folder: Path) -> list[Path]:
    """The site and the tables in a folder, each file whole; RecordError where that cannot be."""
    from trainload.analyse.book import table_json
    from trainload.analyse.published import SOURCES, load_published
    from trainload.estimate.sizes.networks import estimate_sizes
    from trainload.report.book.html import INDEX, SIZES, render_index, render_sizes
    from trainload.report.export.tables import table_bytes
    from trainload.report.markup import render_json

    frame = found.frame()
    sizes = estimate_sizes(load_published("light_network_sizes").iter_rows(named=True))
    pages = {
        INDEX: render_index(found).encode("utf-8", "backslashreplace"),
        SIZES: render_sizes(sizes, found.title, SOURCES["light_network_sizes"]).encode("utf-8"),
        "book.csv": table_bytes(frame, "csv", found.title),
        "book.parquet": table_bytes(frame, "parquet", found.title),
        "book.json": render_json(table_json(found.entries, "trainload book")).encode("ascii"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in pages.items():
            write_whole(folder / name, data)
    except OSError as error:
        raise RecordError(f"cannot write {folder}: {error.strerror}") from error
    return [folder / name for name in pages]


def contribute(
    runs: Sequence[str | Path], folder: str | Path, *, hide: Sequence[str] = ()
) -> list[Run]:
    """Stripped copies of run directories in a folder, each under its run's name, read back.

    Without host, user, folders, processes, logs and traces; `hide` names further words. UsageError
    without a run, RecordError where one cannot be taken.
    """
    from trainload.record import open_run
    from trainload.record.stripping import strip_run, strip_text

    if not runs:
        raise UsageError("name the run directories to contribute")
    done = []
    for path in map(Path, runs):
        name = strip_text(open_run(path, seal=False).manifest.run_id or path.name, hide=hide)
        done.append(strip_run(path, Path(folder) / Path(name).name, hide=hide))
    return done


def _collect(places: Sequence[Path]) -> Book:
    from trainload.analyse.book import Book, gather_entries, in_order

    entries: list[BookEntry] = []
    runs: list[BookRun] = []
    left_out: list[tuple[str, str]] = []
    notes: list[str] = []
    for place in places:
        if place.is_dir():
            _read_folder(place, runs, left_out, notes)
        elif place.is_file():
            entries += _read_file(place)
        else:
            raise UsageError(f"{place} is no folder of runs and no table; see trainload ls")
    entries = in_order([*gather_entries(_once(runs)), *entries])
    if not entries and not left_out:
        named = ", ".join(map(str, places))
        raise UsageError(f"{named}: no runs there; name a folder that holds run directories")
    return Book(title=OWN, entries=tuple(entries), left_out=tuple(left_out), notes=tuple(notes))


def _read_folder(
    place: Path, runs: list[BookRun], left_out: list[tuple[str, str]], notes: list[str]
) -> None:
    from trainload.analyse.book import BookRun, device_of
    from trainload.api.analysing import measure_run, measured_runs
    from trainload.api.listing import list_runs
    from trainload.record import load_manifest
    from trainload.record.figures import manifest_sha256

    listing = list_runs(place)
    notes += (note for note in listing.notes if "keep no figures" not in note)
    lacking = [listed.path for listed in listing.runs if not listed.kept]
    late = set(lacking[_MOST_WORKED_OUT:])
    waiting = {
        study.path for study in listing.studies for path in late if study.path in path.parents
    }
    # Whoever collects a whole store reads it, and leaves it as it is.
    known = {
        path: one
        for study in listing.studies
        if study.path not in waiting
        for path, one in measured_runs(study.path, keep=False)
    }
    for listed in listing.runs:
        if listed.path in late or waiting.intersection(listed.path.parents):
            left_out.append((listed.path.name, _NO_FIGURES))
            continue
        one = known.get(listed.path) or measure_run(listed.path, {}, keep=False)
        if one.figures is None or one.reason is not None:
            left_out.append((one.run, one.reason or "cannot be read"))
            continue
        try:
            manifest = load_manifest(listed.path)
            digest = manifest_sha256(listed.path)
        except TrainloadError as error:
            left_out.append((one.run, f"cannot be read: {error}"))
            continue
        runs.append(
            BookRun(
                figures=one.figures,
                device=device_of(manifest),
                software=manifest.software,
                sha256=digest,
            )
        )


def _once(runs: Sequence[BookRun]) -> list[BookRun]:
    """Each run once, however many copies of it lie about."""
    return list({(run.figures.run_id, run.sha256): run for run in runs}.values())


def _read_file(path: Path) -> Sequence[BookEntry]:
    from trainload.analyse.book import parse_table
    from trainload.analyse.book.table import LARGEST_BYTES
    from trainload.record.inside import read_inside

    try:
        return parse_table(read_inside(path, LARGEST_BYTES), str(path))
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
