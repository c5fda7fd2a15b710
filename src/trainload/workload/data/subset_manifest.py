"""A subset of an image folder as `trainload subset` left it: its manifest, read and checked.

Reads the manifest and its summary; the images themselves are the worker's to open.
"""

import json
from pathlib import Path
from typing import Any

from trainload.errors import WorkloadError
from trainload.workload.data.images import FoundImages
from trainload.workload.subset.choose import TRAIN, VALIDATION
from trainload.workload.subset.files import MANIFEST, SUMMARY
from trainload_worker.protocol.data import TRAIN_FOLDER


def find_subset(path: Path) -> Path | None:
    """The folder of the subset that a path names: itself, or one of its two files; else None.

    A subset with links is an image folder like any other, and is taken as that.
    """
    if path.name in (MANIFEST, SUMMARY):
        path = path.parent
    elif (path / TRAIN_FOLDER).is_dir():
        return None
    return path if (path / MANIFEST).is_file() and (path / SUMMARY).is_file() else None


def scan_subset(path: Path) -> FoundImages:
    """Read the whole manifest; WorkloadError names the line at fault, or a folder that is gone."""
    folder = find_subset(path)
    if folder is None:
        raise WorkloadError(
            f"--data subset: {path} holds no {MANIFEST} and {SUMMARY}; "
            "make them with trainload subset"
        )
    _check_root(folder / SUMMARY)
    classes: dict[int, str] = {}
    counts = {TRAIN: 0, VALIDATION: 0}
    manifest = folder / MANIFEST
    try:
        with manifest.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                row = _parse_row(line, f"{manifest}, line {number}")
                counts[row["split"]] += 1
                if classes.setdefault(row["label"], row["class"]) != row["class"]:
                    raise WorkloadError(
                        f"{manifest}, line {number}: label {row['label']} is class "
                        f"{classes[row['label']]!r} in an earlier line"
                    )
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read {manifest}: {error}") from error
    if len(classes) < 2 or sorted(classes) != list(range(len(classes))):
        raise WorkloadError(f"{manifest}: {len(classes)} class(es); at least 2 needed, from 0 on")
    if not counts[TRAIN]:
        raise WorkloadError(f"{manifest}: no image is for training")
    return FoundImages(
        kind="subset",
        path=folder,
        classes=tuple(classes[label] for label in sorted(classes)),
        rows=sum(counts.values()),
        train_rows=counts[TRAIN],
        has_validation=counts[VALIDATION] > 0,
        shape=None,
    )


def _check_root(summary: Path) -> None:
    """The folder that the subset was drawn from must still be there."""
    try:
        root = json.loads(summary.read_text(encoding="utf-8"))["folder"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WorkloadError(f"cannot read {summary}: {error}") from error
    if not isinstance(root, str) or not Path(root).is_dir():
        raise WorkloadError(f"{summary}: the images were at {root}, which is not there any more")


def _parse_row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        sound = (
            isinstance(row["path"], str)
            and isinstance(row["class"], str)
            and isinstance(row["label"], int)
            and row["split"] in (TRAIN, VALIDATION)
        )
    except (ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        raise WorkloadError(f"{where}: not a line that trainload subset writes")
    found: dict[str, Any] = row
    return found
