"""Data at an fsspec address, brought into the cache: resumable, checksummed, never silently.

Imports fsspec when an address is given, and writes inside the cache folder only.

    CACHE/remote/KEY/address      the address, for people
    CACHE/remote/KEY/files/…      the files, each under its name only when it is whole
    CACHE/remote/KEY/fetched.jsonl  a line for each whole file: its remote state, size and SHA-256
"""

import base64
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from trainload.errors import WorkloadError

_BLOCK_BYTES = 4 << 20
_ALWAYS_BYTES = 1 << 30
MOST_PACKED = 200
"""Bytes for each byte of an archive, beyond the first GiB; images and text stay far below."""
_STATE_FIELDS = ("size", "ETag", "etag", "md5Hash", "mtime", "LastModified", "updated", "created")
_MD5_FIELD = "md5Hash"
"""Of Google's storage. An ETag is an MD5 only sometimes, and nothing says when."""


@dataclass(frozen=True, kw_only=True)
class FetchProgress:
    """How far the fetching of an address has come."""

    files: int
    """Those that are done."""
    total_files: int
    fetched_bytes: int
    total_bytes: int


Tell = Callable[[FetchProgress], None]


def is_address(text: str) -> bool:
    """Whether a word is an fsspec address and not a path."""
    return "://" in text


def fetch_remote(address: str, cache: Path, tell: Tell | None = None) -> Path:
    """The local copy of an address, brought up to date; WorkloadError says what failed.

    A file that was fetched before and is unchanged is not fetched again; one that was being
    fetched goes on where it stopped. Files that are gone at the address are removed here.
    """
    filesystem, root = _open_filesystem(address)
    if not root and address.startswith(("file:", "local:")):
        raise WorkloadError(f"{address} is this whole machine; name the folder or file in it")
    key = hashlib.sha256(address.rstrip("/").encode()).hexdigest()[:24]
    folder = cache / "remote" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "address").write_text(f"{address}\n", encoding="utf-8")
        with _locked(folder / "lock"):
            copy = _Copy(address, filesystem, root, folder)
            copy.update(tell)
    except OSError as error:
        where = error.filename or folder
        raise WorkloadError(
            f"cannot fetch {address}: {where}: {error.strerror or error}"
        ) from error
    return copy.path


def _open_filesystem(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise WorkloadError(
            f"{address}: remote data needs fsspec: pip install 'trainload[remote]'"
        ) from None
    try:
        filesystem, root = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise WorkloadError(f"{address}: {error}") from None
    except Exception as error:  # each file system has its own errors
        raise WorkloadError(f"{address}: {_first_line(error)}") from error
    return filesystem, root.rstrip("/")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Copy:
    """One address and its local copy."""

    def __init__(self, address: str, filesystem: Any, root: str, folder: Path) -> None:
        self._address = address
        self._filesystem = filesystem
        self._files = folder / "files"
        self._log = folder / "fetched.jsonl"
        self._listing = self._list(root)
        single = list(self._listing) == [PurePosixPath(root).name] and self._is_file(root)
        self.path = self._files / PurePosixPath(root).name if single else self._files

    def update(self, tell: Tell | None) -> None:
        """Fetch what is missing or changed, remove what is gone."""
        known = self._load_log()
        self._files.mkdir(exist_ok=True)
        self._remove_gone()
        total = sum(entry["size"] for entry in self._listing.values())
        self._check_room(total)
        done = 0
        with self._log.open("a", encoding="utf-8") as log:
            for number, (name, entry) in enumerate(self._listing.items()):
                begun = FetchProgress(
                    files=number,
                    total_files=len(self._listing),
                    fetched_bytes=done,
                    total_bytes=total,
                )
                tell_at = partial(_tell_inside, tell, begun)
                tell_at(0)
                if not self._is_current(name, entry, known.get(name)):
                    line = {"name": name, **self._fetch(name, entry, tell_at)}
                    log.write(json.dumps(line) + "\n")
                    log.flush()
                done += entry["size"]

    def _check_room(self, total: int) -> None:
        """WorkloadError where more is stated than the disk or the archive can hold."""
        free = shutil.disk_usage(self._files).free
        present = sum(p.stat().st_size for p in self._files.rglob("*") if p.is_file())
        if total - present > free:
            raise WorkloadError(
                f"{self._address} states {total:,} bytes and {self._files} has {free:,} free; "
                "choose another place with --cache"
            )
        packed = [entry["packed"] for entry in self._listing.values()]
        held = sum(size for size in packed if size is not None)
        if None not in packed and total > max(_ALWAYS_BYTES, MOST_PACKED * held):
            raise WorkloadError(
                f"{self._address} states {total:,} bytes in an archive of {held:,}, which no data "
                "set does; unpack it yourself if it is meant"
            )

    def _list(self, root: str) -> dict[str, dict[str, Any]]:
        """Name below the root -> remote path, size and state, in the order of names."""
        try:
            found = self._filesystem.find(root, detail=True)
        except Exception as error:  # each file system has its own errors
            raise WorkloadError(f"cannot list {self._address}: {_first_line(error)}") from error
        if not found:
            raise WorkloadError(f"nothing at {self._address}")
        listing = {}
        for path, info in sorted(found.items()):
            name = path[len(root) :].strip("/") or PurePosixPath(path).name
            if ".." in PurePosixPath(name).parts or name.endswith(".part"):
                raise WorkloadError(f"{self._address}: the file name {name!r} cannot be kept")
            if info.get("size") is None:
                raise WorkloadError(
                    f"{self._address}: the size of {name} is not told, so that a copy could not "
                    "be checked; fetch it yourself and give its path"
                )
            state = {key: str(info[key]) for key in _STATE_FIELDS if info.get(key) is not None}
            packed = info.get("compress_size")
            listing[name] = {
                "path": path,
                "size": int(info["size"] or 0),
                "state": state,
                "packed": packed if isinstance(packed, int) else None,
            }
        return listing

    def _is_file(self, root: str) -> bool:
        return bool(self._filesystem.isfile(root))

    def _load_log(self) -> dict[str, Mapping[str, Any]]:
        known: dict[str, Mapping[str, Any]] = {}
        if not self._log.exists():
            return known
        for line in self._log.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
                known[entry["name"]] = entry
            except (ValueError, KeyError, TypeError):
                continue  # the line that was being written when a fetch ended
        return known

    def _remove_gone(self) -> None:
        for path in self._files.rglob("*"):
            name = path.relative_to(self._files).as_posix()
            kept = name.removesuffix(".part.state").removesuffix(".part")
            if path.is_file() and kept not in self._listing:
                path.unlink()

    def _is_current(self, name: str, entry: Any, known: Mapping[str, Any] | None) -> bool:
        """Whether the local file is the one that was fetched, and that still the remote one."""
        local = self._files / name
        if known is None or known.get("state") != entry["state"] or not local.is_file():
            return False
        found = local.stat()
        if found.st_size != known.get("size"):
            return False
        # A file that nobody touched since is not read again: hashing all would take minutes.
        return found.st_mtime_ns == known.get("mtime_ns") or _hash(local) == known.get("sha256")

    def _fetch(self, name: str, entry: Any, tell_at: Callable[[int], None]) -> dict[str, Any]:
        local = self._files / name
        local.parent.mkdir(parents=True, exist_ok=True)
        part, state = Path(f"{local}.part"), Path(f"{local}.part.state")
        text = json.dumps(entry["state"], sort_keys=True)
        if not (part.exists() and state.exists() and state.read_text(encoding="utf-8") == text):
            part.unlink(missing_ok=True)
            state.write_text(text, encoding="utf-8")
        with part.open("a+b") as target:
            self._copy_rest(entry, target, tell_at)
            target.flush()
            os.fsync(target.fileno())
            size = target.tell()
        wrong = None if size == entry["size"] else f"{size} bytes"
        told = entry["state"].get(_MD5_FIELD)
        if wrong is None and told is not None and _md5(part) != told:
            wrong = "other bytes than its MD5 says"
        if wrong is not None:
            part.unlink()
            raise WorkloadError(
                f"{self._address}: {name} gave {wrong}, its listing says {entry['size']} bytes; "
                "run again"
            )
        part.replace(local)
        state.unlink()
        return {
            "state": entry["state"],
            "size": size,
            "mtime_ns": local.stat().st_mtime_ns,
            "sha256": _hash(local),
        }

    def _copy_rest(self, entry: Any, target: Any, tell_at: Callable[[int], None]) -> None:
        """Go on after what is there; what was fetched stays when the connection breaks.

        A source that cannot begin in its middle, as some web servers, is fetched anew.
        """
        try:
            with self._filesystem.open(entry["path"], "rb") as source:
                try:
                    source.seek(target.seek(0, os.SEEK_END))
                except (ValueError, OSError):
                    target.truncate(target.seek(0))
                while (left := entry["size"] - target.tell()) >= 0:
                    block = source.read(min(_BLOCK_BYTES, left + 1))
                    if not block:
                        break
                    target.write(block)
                    tell_at(target.tell())
        except Exception as error:  # each file system has its own errors
            raise WorkloadError(
                f"cannot fetch {self._address}: {_first_line(error)}; run again to go on"
            ) from error


def _tell_inside(tell: Tell | None, begun: FetchProgress, file_bytes: int) -> None:
    """Tell of so many bytes more than when a file was begun."""
    if tell is not None:
        tell(replace(begun, fetched_bytes=begun.fetched_bytes + file_bytes))


def _md5(path: Path) -> str:
    """As listings write it."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return base64.b64encode(digest.digest()).decode("ascii")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
