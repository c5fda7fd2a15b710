"""A subset on disk: manifest, summary and, if asked, links; put in place whole or not at all.

Writes in the folder asked for and never touches the images.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainload.errors import UsageError, WorkloadError
from trainload.workload.subset.choose import Subset
from trainload_worker.protocol.data import SUBSET_MANIFEST, SUBSET_SUMMARY

MANIFEST, SUMMARY = SUBSET_MANIFEST, SUBSET_SUMMARY


def check_place(folder: Path, out: Path, *, force: bool) -> None:
    """An error, before the long reading, where the subset could not be put in place."""
    source, place = Path(os.path.realpath(folder)), Path(os.path.realpath(out))
    if place.is_relative_to(source):
        raise UsageError(
            f"{out} lies in {folder}, where it would be taken for a class; choose another --out"
        )
    if source.is_relative_to(place):
        raise UsageError(f"{out} holds the images themselves; choose another --out")
    parent = _place(out).parent
    try:
        taken = _is_taken(out)
        while not parent.exists() and parent != parent.parent:
            parent = parent.parent
    except OSError as error:
        raise WorkloadError(
            f"cannot write {out}: {error.strerror}; choose another --out"
        ) from error
    if taken and not force:
        raise WorkloadError(
            f"{out} exists; choose another --out, or --force to move it aside and write anew"
        )
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise WorkloadError(
            f"cannot write {out}: {parent} takes no new files; choose another --out"
        )


def save_subset(
    subset: Subset, summary: Mapping[str, Any], out: Path, *, link: bool, force: bool
) -> Path | None:
    """Write the subset to `out`; where something was moved to make room, else None.

    Nothing is deleted: with `force` what stood there gets a name of its own beside it.
    """
    check_place(subset.request.folder, out, force=force)
    out = _place(out)
    try:
        with _part_folder(out) as part:
            with (part / MANIFEST).open("wb") as file:
                for row in subset.rows():
                    file.write(_json_bytes(row) + b"\n")
                    if link:
                        _link(subset.request.folder, row, part)
            (part / SUMMARY).write_bytes(_json_bytes(summary, indent=1) + b"\n")
            return _put_in_place(part, out, force=force)
    except OSError as error:
        raise WorkloadError(f"cannot write {out}: {error.strerror or error}") from error


def _place(out: Path) -> Path:
    return Path(os.path.abspath(out))  # noqa: PTH100 - resolve() would follow a link that is replaced


def _json_bytes(value: Mapping[str, Any], indent: int | None = None) -> bytes:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a name that is no UTF-8: escaped, os.fsencode gives it back
        return json.dumps(value, indent=indent).encode()


@contextmanager
def _part_folder(out: Path) -> Iterator[Path]:
    """A folder beside `out` to be renamed to it; gone afterwards, however that ends."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{secrets.token_hex(6)}.part")
    part.mkdir()
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _link(folder: Path, row: Mapping[str, Any], part: Path) -> None:
    """The image's link under its split and class; folders inside the class are kept."""
    place = part / row["split"] / row["path"]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(folder.absolute() / row["path"])
    except OSError as error:
        raise WorkloadError(
            f"cannot make links in {part.parent}: {error.strerror}; use --manifest-only, "
            "or an --out on another file system"
        ) from error


def _is_taken(out: Path) -> bool:
    """Whether something would be lost by writing there; an empty folder would not."""
    if out.is_symlink() or not out.is_dir():
        return os.path.lexists(out)
    with os.scandir(out) as entries:
        return any(True for _ in entries)


def _put_in_place(part: Path, out: Path, *, force: bool) -> Path | None:
    aside = _free_name(out) if force and _is_taken(out) else None
    try:
        if aside is not None:
            out.rename(aside)
        part.rename(out)
    except BaseException:
        if aside is not None and os.path.lexists(aside) and not os.path.lexists(out):
            aside.rename(out)
        raise
    return aside


def _free_name(out: Path) -> Path:
    number = 1
    while os.path.lexists(aside := out.with_name(f"{out.name}.old{number}")):
        number += 1
    return aside
