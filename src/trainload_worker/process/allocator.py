"""Keeps the C library's allocator as the program has it, whatever large is freed beside it.

Between blocks that glibc takes from the system one by one and those that it keeps stands a
threshold, which rises to the size of any block of the first kind that is freed. A trace's buffers
are such blocks: freeing them would have the program keep memory that it gave back after each step
before, and its steps would take less time than they do without us (bench/page_faults.py).
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

_M_MMAP_MAX = -4
_DEFAULT_MMAPS = 65536
"""How many blocks may be taken one by one, unless somebody said otherwise."""


def let_go_slowly(items: list[Any]) -> None:
    """Empties a long list one by one: its memory shrinks in place and is small when it is freed."""
    while items:
        items.pop()


@functools.lru_cache(maxsize=1)
def hold_thresholds() -> bool:
    """From now on the thresholds stay where the program's own frees have brought them.

    Done by giving another setting its default: glibc no longer moves any once one was given. They
    have long settled where steps repeat. False where the C library has no such thing.
    """
    if "MALLOC_MMAP_MAX_" in os.environ or "mmap_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return True  # the user's own word, which holds them too
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version.restype = ctypes.c_char_p
        if not libc.gnu_get_libc_version():
            return False
        return bool(libc.mallopt(_M_MMAP_MAX, _DEFAULT_MMAPS))
    except (AttributeError, OSError, TypeError):
        return False
