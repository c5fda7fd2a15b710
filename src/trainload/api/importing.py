"""`trainload.import_runs`: files of other tools as runs, ordinary, sealed, with their source."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainload.api.loading import Runs, load
from trainload.errors import UsageError


def import_runs(
    kind: str,
    files: str | Path | Iterable[str | Path],
    *,
    out: str | Path = "runs",
    units: Mapping[str, str] | None = None,
    interval_s: float | None = None,
    config: Mapping[str, str] | None = None,
) -> Runs:
    """The runs that some files of one kind hold, as run directories under `out`.

    `units` name the unit of a column that its format does not tell, `interval_s` the time between
    readings of a file without times, `config` what was trained: `model`, `framework`, `setting` and
    anything else. UsageError where a file is not of its kind; nothing is left then.
    """
    from trainload.integrations.imports.kinds import KINDS
    from trainload.integrations.imports.runs import ImportOptions, write_run

    if kind not in KINDS:
        raise UsageError(f"cannot import {kind}: no such kind; known: {', '.join(KINDS)}")
    if interval_s is not None and not 0 < interval_s < 1e6:
        raise UsageError(f"an interval of {interval_s} s cannot be meant; give seconds above 0")
    named = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    if len({path.name for path in named}) < len(named):
        raise UsageError("two files have one name; rename one, so that a run can say which it is")
    options = ImportOptions(units=units or {}, interval_s=interval_s, config=config or {})
    made: list[Path] = []
    try:
        for run in KINDS[kind](named, options):
            path = write_run(Path(out), run)
            made.append(path)
            load(path)  # sealed, with its figures
    except BaseException:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        raise
    if not made:
        listed = ", ".join(path.name for path in named)
        raise UsageError(f"{listed} holds no run of the kind {kind}; is it another kind?")
    return Runs(made)
