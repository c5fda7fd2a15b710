"""Creating a run directory, holding it while the run goes on, and closing it with an outcome.

The holder keeps a lock on the directory itself, which the system frees however the holder ends.
"""

import errno
import fcntl
import os
import secrets
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from trainload.errors import RecordError
from trainload.files import OwnDescriptor
from trainload.record.facts import WorkerFacts, load_facts, load_other_ranks, rank_warnings
from trainload.record.layout import EVENTS, EVENTS_GLOB, RESERVE, RESERVE_BYTES, SAMPLES
from trainload.record.lines import is_number, read_tail
from trainload.record.manifest import Manifest, load_manifest, save_manifest
from trainload_worker.protocol.outcomes import Outcome

_LONGEST_NAME = 150


class DirectoryLock:
    """An exclusive hold on a run directory; freed by the system when its holder dies."""

    def __init__(self, run_dir: Path) -> None:
        try:
            self._held = OwnDescriptor(os.open(run_dir, os.O_RDONLY))
        except OSError as error:
            raise RecordError(f"cannot open {run_dir}: {error.strerror}") from error

    def try_take(self) -> bool:
        """Take the hold; False where another process has it."""
        fd = self._held.fd
        if fd is None:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # A file system without locks tells nothing, so there the answer is yes.
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def free(self) -> None:
        """Let go; harmless when called twice."""
        fd = self._held.fd
        if fd is not None:
            # Closing alone would leave the hold to a child that another thread is just starting.
            try:
                fcntl.flock(fd, fcntl.LOCK_UN)
            except OSError:
                pass  # a file system without locks
            self._held.close()


def is_held(folder: Path) -> bool:
    """Whether some process holds a directory now; several may ask at once.

    False too where the file system knows no locks; RecordError where it cannot be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise RecordError(f"cannot open {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(descriptor)
    return False


@dataclass
class RunDirectory:
    """A run directory held by the process that runs it."""

    path: Path
    manifest: Manifest
    lock: DirectoryLock

    def save(self, manifest: Manifest) -> None:
        """Write a changed run.json."""
        self.manifest = manifest
        save_manifest(self.path, manifest)

    def close(self, manifest: Manifest) -> None:
        """Write the outcome; the space kept in reserve is freed first, for a full disk."""
        assert manifest.outcome is not None, "a closed run has an outcome"
        (self.path / RESERVE).unlink(missing_ok=True)
        try:
            self.save(manifest)
        finally:
            self.lock.free()


def create_run_directory(parent: Path, model: str, manifest: Manifest) -> RunDirectory:
    """A new directory under `parent`, held by this process; RecordError where that is refused.

    `manifest.run_id` is replaced by the directory's name, unique even for runs started at the
    same moment.
    """
    path = _make_directory(parent, model)
    lock = DirectoryLock(path)
    lock.try_take()
    run = RunDirectory(path, replace(manifest, run_id=path.name), lock)
    try:
        save_manifest(path, run.manifest)
        (path / RESERVE).write_bytes(b"\0" * RESERVE_BYTES)
    except (OSError, RecordError) as error:
        lock.free()
        shutil.rmtree(path, ignore_errors=True)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise RecordError(
            f"cannot begin a run in {parent}: {reason}; free some space or choose another --out"
        ) from error
    return run


def close_if_abandoned(run_dir: Path) -> Manifest:
    """Close a run whose driver ended without doing so; the caller holds the lock."""
    manifest = load_manifest(run_dir)
    if manifest.outcome is not None:
        return manifest
    manifest = abandoned_manifest(run_dir, manifest)
    (run_dir / RESERVE).unlink(missing_ok=True)
    save_manifest(run_dir, manifest)
    return manifest


def abandoned_manifest(run_dir: Path, manifest: Manifest) -> Manifest:
    """What the manifest of a run must say whose driver is gone; writes nothing.

    Never `completed`: only the driver that saw the run to its end says so.
    """
    _wait_until_quiet(run_dir)
    facts, damaged = load_facts(run_dir, manifest.origin_s)
    outcome, reason = _abandoned_outcome(facts)
    others = load_other_ranks(run_dir, manifest.origin_s)
    times = (facts.last_s, *(one.last_s for one in others.values()), _last_sample_s(run_dir))
    last_s = max(filter(None, times), default=None)
    clock = manifest.clock
    return replace(
        facts.written_into(manifest, others),
        outcome=outcome,
        outcome_reason=reason,
        clock=None if clock is None else replace(clock, end_s=last_s),
        damaged_lines=damaged,
        warnings=(*manifest.warnings, *rank_warnings(others)),
    )


def _abandoned_outcome(facts: WorkerFacts) -> tuple[Outcome, str]:
    end = facts.end
    if end is not None and end.outcome in ("failed", "out_of_memory"):
        return end.outcome, str(end.reason)
    if facts.completed:
        return "killed", "the driver ended before it closed the run; the training had finished"
    return "killed", "the driver ended without closing the run"


def _last_sample_s(run_dir: Path) -> float | None:
    rows = [v for v in read_tail(run_dir / SAMPLES) if isinstance(v, list) and len(v) > 1]
    return float(rows[-1][1]) if rows and is_number(rows[-1][1]) else None


def _wait_until_quiet(run_dir: Path, quiet_s: float = 1.0, limit_s: float = 5.0) -> None:
    """Let a worker or sampler that outlived its driver write its last lines."""
    deadline = time.monotonic() + limit_s
    sizes = _sizes(run_dir)
    since = time.monotonic()
    while time.monotonic() < deadline:
        if time.time() - _newest_change_s(run_dir) > quiet_s or time.monotonic() - since > quiet_s:
            return
        time.sleep(0.1)
        if _sizes(run_dir) != sizes:
            sizes, since = _sizes(run_dir), time.monotonic()


def _sizes(run_dir: Path) -> list[int]:
    return [p.stat().st_size for p in _line_files(run_dir)]


def _newest_change_s(run_dir: Path) -> float:
    return max((p.stat().st_mtime for p in _line_files(run_dir)), default=0.0)


def _line_files(run_dir: Path) -> list[Path]:
    paths = [run_dir / EVENTS, run_dir / SAMPLES, *sorted(run_dir.glob(EVENTS_GLOB))]
    return [path for path in paths if path.exists()]


def _make_directory(parent: Path, model: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    # Names of files end at 255 bytes, and temporary ones beside this one are longer.
    model = model.encode("utf-8", "surrogateescape")[:_LONGEST_NAME].decode("utf-8", "ignore")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            path = parent / f"{model}-{stamp}-{secrets.token_hex(3)}"
            try:
                path.mkdir()
                return path
            except FileExistsError:
                continue
    except OSError as error:
        raise RecordError(
            f"cannot make a run directory in {parent}: {error.strerror}; choose another with --out"
        ) from error
