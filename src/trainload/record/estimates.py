"""Estimates kept until their workload is run, and the copy in its run directory.

    keep_estimate(identity: str, document: Mapping[str, Any]) -> Path

is for whoever estimates: `identity` from `trainload.workload.identity.workload_identity`, document
the JSON object that is shown to the user (its `memory` has the figures). A later estimate of the
same workload replaces the earlier. Files alone: nothing is computed here.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainload.errors import RecordError
from trainload.files import write_whole
from trainload.record.layout import ESTIMATE

FOLDER_VARIABLE = "TRAINLOAD_ESTIMATES"
CARD_KIND = "memory_scorecard"
CARD_FORMAT = 1
_LARGEST_BYTES = 64 << 20


def estimates_folder() -> Path:
    """$TRAINLOAD_ESTIMATES, or `trainload/estimates` in the user's data folder."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "trainload" / "estimates"


def keep_estimate(identity: str, document: Mapping[str, Any]) -> Path:
    """Keep an estimate for the day its workload is run; RecordError where the disk refuses."""
    path = estimates_folder() / f"{identity}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8"))
    except OSError as error:
        raise RecordError(f"cannot keep the estimate in {path}: {error.strerror}") from error
    return path


def copy_estimate(run_dir: Path, identities: Sequence[str]) -> bool:
    """Copy the first of these estimates that was kept into a run directory; False without one.

    A file that cannot be read or written is as none: a run does not fail for it.
    """
    for identity in identities:
        path = estimates_folder() / f"{identity}.json"
        try:
            if path.stat().st_size > _LARGEST_BYTES:
                continue
            write_whole(run_dir / ESTIMATE, path.read_bytes())
        except (OSError, RuntimeError):  # RuntimeError: no home folder is known
            continue
        return True
    return False


def load_estimate(run_dir: Path) -> dict[str, Any] | None:
    """The estimate of a run; None where it has none, RecordError where it is damaged."""
    path = run_dir / ESTIMATE
    return _load(path) if path.exists() else None


def load_scorecard(path: Path) -> dict[str, Any]:
    """A file with estimates beside truths, as `bench/memory_scorecard.py` writes it."""
    document = _load(path)
    if document.get("kind") != CARD_KIND:
        raise RecordError(f"{path} holds no estimates beside truths; give a {CARD_KIND} file")
    if document.get("format") != CARD_FORMAT:
        raise RecordError(
            f"{path} has format {document.get('format')!r}, this trainload reads {CARD_FORMAT}"
        )
    return document


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecordError(f"no such file: {path}") from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None
    if not isinstance(document, dict):
        raise RecordError(f"{path} is damaged: not a JSON object")
    return document
