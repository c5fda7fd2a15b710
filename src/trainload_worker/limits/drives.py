"""Drives as a loader meets them: whole files in order, pieces at random; memory's disk beside.

Reads what it wrote itself, the page cache emptied of it before; leaves nothing behind.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import ExitStack
from time import perf_counter
from typing import Callable, Dict

from trainload_worker.limits.facts import drive_kind
from trainload_worker.limits.sampling import Key, Lacking, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

_RAM = "/dev/shm"  # noqa: S108 - the system's own RAM disk is what is measured
_PIECE = 1 << 20
_BLOCKS = (4096, 128 << 10)
_RANDOM_READS = 200
_FILE = {True: 128 << 20, False: 512 << 20}
"""Bytes of the file by whether the form is the quick one."""


def measure_drive(place: Place) -> Measured:
    """Bytes a second read from the drive, from the page cache and from a RAM disk."""
    size = _FILE[place.quick]
    if drive_kind(place.folder) == "memory":
        raise Lacking("files that do not stay lie in memory here; set TMPDIR to a drive's folder")
    if shutil.disk_usage(place.folder).free < 4 * size:
        raise Lacking(f"the drive has less than {4 * size >> 20} MiB free")
    conditions: Dict[Key, Callable[[], float]] = {}
    notes = []
    with ExitStack() as stack:
        path = _written(stack, place.folder, size)
        conditions[key(place="drive", pattern="sequential", block=_PIECE)] = _in_order(path, True)
        conditions[key(place="cache", pattern="sequential", block=_PIECE)] = _in_order(path, False)
        for block in _BLOCKS:
            conditions[key(place="drive", pattern="random", block=block)] = _at_random(
                path, size, block, True
            )
        if os.path.isdir(_RAM) and shutil.disk_usage(_RAM).free > 4 * size:
            inside = _written(stack, _RAM, size)
            conditions[key(place="ram", pattern="sequential", block=_PIECE)] = _in_order(
                inside, False
            )
            for block in _BLOCKS:
                conditions[key(place="ram", pattern="random", block=block)] = _at_random(
                    inside, size, block, False
                )
        else:
            notes.append(f"no RAM disk with room at {_RAM}")
        readings = sample_rounds(conditions, place.rounds, place.check)
    method = (
        f"a file of {size >> 20} MiB that was written here, read by one process in pieces; of the "
        "drive after the page cache was told to let go of it (posix_fadvise), so a cache of the "
        "drive or of the host below may still hold it"
    )
    return measured("drive-read", "bytes/s", readings, method, notes)


def _written(stack: ExitStack, folder: str, size: int) -> str:
    """A file of random bytes, on the drive for certain; gone when the stack ends."""
    place = stack.enter_context(tempfile.TemporaryDirectory(dir=folder, prefix="trainload-"))
    path = os.path.join(place, "data")
    piece = os.urandom(_PIECE)
    with open(path, "wb") as file:
        for number in range(size // _PIECE):
            # No drive that packs or shares equal pieces finds two alike.
            file.write(number.to_bytes(8, "little") + piece[number % _PIECE :])
            file.write(piece[: max(number % _PIECE - 8, 0)])
        file.truncate(size)
        file.flush()
        os.fsync(file.fileno())
    return path


def _in_order(path: str, cold: bool) -> Callable[[], float]:
    def measure() -> float:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if cold:
                _forget(descriptor)
            target = memoryview(bytearray(_PIECE))
            total, begin_s = 0, perf_counter()
            while True:
                count = os.readv(descriptor, [target])
                if not count:
                    return total / (perf_counter() - begin_s)
                total += count
        finally:
            os.close(descriptor)

    return measure


def _at_random(path: str, size: int, block: int, cold: bool) -> Callable[[], float]:
    drawn = random.Random(7)

    def measure() -> float:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if cold:
                _forget(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            places = [drawn.randrange(size // block) * block for _ in range(_RANDOM_READS)]
            begin_s = perf_counter()
            for at in places:
                os.pread(descriptor, block, at)
            return block * len(places) / (perf_counter() - begin_s)
        finally:
            os.close(descriptor)

    return measure


def _forget(descriptor: int) -> None:
    """Has the page cache let go of a file; Lacking where the system cannot."""
    if not hasattr(os, "posix_fadvise"):
        raise Lacking("this system cannot empty the page cache of one file")
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
