"""The loops of `kernels.c`, compiled on the machine they time; Lacking where it has no compiler."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from typing import Any

from trainload_worker.limits.sampling import Lacking

_SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernels.c")
_COMPILERS = ("cc", "gcc", "clang")
_COMPILE_S = 60.0


def load_kernels(folder: str) -> Kernels:
    """Compiles the loops into `folder` for this very CPU and loads them."""
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise Lacking("no C compiler (cc, gcc, clang) is here, and Python cannot time single loads")
    library = os.path.join(folder, "kernels.so")
    words = [compiler, "-O3", "-shared", "-fPIC", "-o", library, _SOURCE]
    said = ""
    for target in (["-march=native"], []):  # not every compiler knows the CPU that it runs on
        try:
            done = subprocess.run(
                [*words, *target], capture_output=True, text=True, timeout=_COMPILE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Lacking(f"{compiler} does not run: {error}") from None
        if done.returncode == 0:
            return Kernels(ctypes.CDLL(library))
        said = (done.stderr.strip().splitlines() or ["no word why"])[-1]
    raise Lacking(f"{compiler} does not compile the loops: {said[:200]}")


class Kernels:
    """The compiled loops; every call lets go of Python's lock, so threads run side by side."""

    def __init__(self, library: Any) -> None:
        size, place, whole = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_long
        self._library = library
        for name, result, arguments in (
            ("take", place, [size, ctypes.c_int]),
            ("give", None, [place, size]),
            ("read_words", ctypes.c_double, [place, size, whole, ctypes.POINTER(ctypes.c_uint64)]),
            ("triad", ctypes.c_double, [place, place, place, size, whole]),
            ("link_circle", ctypes.c_int, [place, size, size, ctypes.c_int, ctypes.c_uint64]),
            ("chase", ctypes.c_double, [place, size, ctypes.POINTER(ctypes.c_void_p)]),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments

    def take(self, count_bytes: int, huge: bool = False) -> Block:
        """Fresh memory, in huge pages if asked; Lacking where the system has none left."""
        place = self._library.take(count_bytes, int(huge))
        if not place:
            raise Lacking(f"no memory for a working set of {count_bytes >> 20} MiB")
        return Block(self._library, place, count_bytes)

    def read_s(self, place: int, count_bytes: int, repeats: int) -> float:
        """Seconds to read so many bytes so often."""
        total = ctypes.c_uint64()
        found: float = self._library.read_words(
            place, count_bytes // 8, repeats, ctypes.byref(total)
        )
        return found

    def triad_s(self, places: tuple[int, int, int], count: int, repeats: int) -> float:
        """Seconds of a = b + s·c over so many doubles, so often."""
        found: float = self._library.triad(*places, count, repeats)
        return found

    def link(self, place: int, count: int, stride: int, *, shift: bool = False) -> None:
        """Makes one circle of `count` places, `stride` bytes apart."""
        if not self._library.link_circle(place, count, stride, int(shift), 7):
            raise Lacking("no memory for the order of the chase")

    def chase_s(self, place: int, steps: int) -> float:
        """Seconds of so many loads along the circle."""
        end = ctypes.c_void_p()
        found: float = self._library.chase(place, steps, ctypes.byref(end))
        return found


class Block:
    """Memory taken from the system; used as a context."""

    def __init__(self, library: Any, place: int, count_bytes: int) -> None:
        self._library, self.place, self._bytes = library, place, count_bytes

    def __enter__(self) -> int:
        return self.place

    def __exit__(self, *_ending: object) -> None:
        self._library.give(self.place, self._bytes)
