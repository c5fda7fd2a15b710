"""A run directory without what names its owner: hosts, users, folders, processes, logs.

Writes a new directory from what is known and typed; what this version does not know is left out.
Traces, layers, checkpoints and logs stay behind: they hold the owner's own words.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import RecordError
from trainload.files import replacing
from trainload.record.layout import EPOCHS_TABLE, MANIFEST, SAMPLES_TABLE, steps_table
from trainload.record.manifest import Manifest, parse_manifest, save_manifest
from trainload.record.read import Run, open_run
from trainload_worker.protocol.checked import to_json

if TYPE_CHECKING:
    import polars as pl

HIDDEN = "(hidden)"
NO_UUID = "GPU-00000000-0000-0000-0000-000000000000"
_SYSTEM = ("/proc", "/sys", "/dev")
"""Places that are alike on every machine."""
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*(?::[\w./~-]+)?")
_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*)://[^\s'\"<>]+", re.IGNORECASE)
_NUMBERS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_PATH = re.compile(r"(?:(?<![\w.:/)])~?|(?<=[=:,])(?!//))/[^\s:;,'\"<>|()\[\]]+")
_WINDOWS = re.compile(r"\b[A-Za-z]:\\[^\s:;,'\"<>|]+|\\\\[^\s:;,'\"<>|]+")
_PLACES = frozenset({"path", "folder", "cache", "file", "root"})
_OPEN = frozenset({"arguments", "watched", "factors", "labels"})
"""Whatever the owner wrote stands there: words with slashes are taken for paths."""
_NAMED = frozenset({"name", "cpu_model", "framework", "column", "kind", "unit"})
"""Fields that name hardware, meters, layers and the like."""
_LEFT_OUT = ("driver", "job", "environment", "checkpoints", "layers", "continues")
"""Parts of run.json that tell of the owner's machine, or of files that stay behind."""
_WITHHELD = frozenset({"address", "detail"})
"""Fields that may hold an address, or lines of the owner's code."""
_COMMON = frozenset({"root", "user", "localhost", "admin", "ubuntu", "torch", "train", "jax"})


def strip_text(text: str, *, hide: Sequence[str] = (), own: bool = True) -> str:
    """Words without paths, addresses and, with `own`, the names of this machine and its user.

    Of a path the last part stays; those of the system stay whole. `hide` names further words.
    """
    text = _ADDRESS.sub(lambda found: f"{found[1]}://{HIDDEN}", text)
    text = _MAIL.sub(HIDDEN, text)
    text = _WINDOWS.sub(lambda found: re.split(r"[\\/]", found[0].rstrip("\\"))[-1], text)
    text = _PATH.sub(lambda found: _last_part(found[0]), text)
    text = _NUMBERS.sub(HIDDEN, text)
    for word in (*(_own_names() if own else ()), *hide):
        if word:
            text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", HIDDEN, text, flags=re.IGNORECASE)
    return text


def strip_manifest(manifest: Manifest, *, hide: Sequence[str] = ()) -> Manifest:
    """The same record without what names its owner; fields of a later version are left out."""
    told = to_json(replace(manifest, sealed=True))
    kept = {name: value for name, value in told.items() if name not in _LEFT_OUT}
    document = _strip(kept, "", hide, open_words=False)
    return parse_manifest(json.dumps(document), MANIFEST)


def strip_run(source: Path, target: Path, *, hide: Sequence[str] = ()) -> Run:
    """A stripped copy of a run directory at `target`, read back; RecordError where it cannot be.

    Refused are runs that did not complete, and places that are taken.
    """
    run = open_run(source, seal=False)
    if run.manifest.outcome != "completed":
        said = run.manifest.outcome or "still running"
        raise RecordError(f"{source} is {said}; the book takes completed runs alone")
    if target.exists():
        raise RecordError(f"{target} exists already; name another --out, or remove it")
    manifest = strip_manifest(run.manifest, hide=hide)
    frames = dict(_frames(run))
    try:
        target.mkdir(parents=True)
        for name, frame in frames.items():
            with replacing(target / name) as file:
                frame.write_parquet(file)
    except OSError as error:
        raise RecordError(f"cannot write {target}: {error.strerror}") from error
    save_manifest(target, manifest)
    left = find_private((target / MANIFEST).read_text(encoding="utf-8"), hide=hide)
    if left:
        raise RecordError(f"{target} still names {left[0]!r}; add --hide WORD for what is yours")
    return open_run(target, seal=False)


def find_private(text: str, *, hide: Sequence[str] = ()) -> list[str]:
    """What of a run.json's words would still be stripped: nothing, in a stripped one."""
    document = json.loads(text)
    stripped = _strip(document, "", hide, open_words=False)
    pairs = zip(_words(document), _words(stripped), strict=False)
    return [word for word, other in pairs if word != other]


def _frames(run: Run) -> Iterator[tuple[str, pl.DataFrame]]:
    """The tables by file name, their columns of numbers alone."""
    import polars.selectors as cs

    for rank in range(run.manifest.processes or 1):
        yield steps_table(rank), run.steps_of(rank).select(cs.numeric())
    yield EPOCHS_TABLE, run.epochs.select(cs.numeric())
    yield SAMPLES_TABLE, run.samples.select(cs.numeric())


def _strip(value: Any, name: str, hide: Sequence[str], *, open_words: bool) -> Any:
    if name in _WITHHELD:
        return None
    if name == "uuid" and isinstance(value, str):
        return NO_UUID
    inner = open_words or name in _OPEN
    if isinstance(value, Mapping):
        return {
            _strip_word(str(key), "", hide, inner): _strip(one, str(key), hide, open_words=inner)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_strip(one, name, hide, open_words=inner) for one in value]
    return _strip_word(value, name, hide, inner) if isinstance(value, str) else value


def _strip_word(text: str, name: str, hide: Sequence[str], open_words: bool) -> str:
    if name in _PLACES:
        text = re.split(r"[\\/]", text.rstrip("/\\"))[-1]
    elif open_words and "/" in text and "://" not in text:
        before, equals, after = text.rpartition("=")
        text = f"{before}{equals}{after.rstrip('/').rsplit('/', 1)[-1]}"
    # A machine may be called after its GPU or a framework: those names are no secret.
    return strip_text(text, hide=hide, own=name not in _NAMED)


def _last_part(path: str) -> str:
    if path in _SYSTEM or path.startswith(tuple(f"{place}/" for place in _SYSTEM)):
        return path
    return path.rstrip("/").rsplit("/", 1)[-1] or HIDDEN


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)
    elif isinstance(value, str):
        yield value


@cache
def _own_names() -> tuple[str, ...]:
    """Names of this machine and its user that are no common words."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""  # a number without a name: nothing to hide
    host = socket.gethostname()
    names = (host, host.partition(".")[0], user, Path.home().name)
    return tuple(n for n in dict.fromkeys(names) if len(n) > 2 and n.lower() not in _COMMON)
