"""A trace's buffers leave the allocator as it was; asked of glibc itself, in a process apart."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc moves its thresholds"
)
SIZE = 10 << 20
PROGRAM = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def is_taken_apart():
    block = libc.malloc({SIZE})
    header = ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value
    libc.free(block)
    return bool(header & 2)  # IS_MMAPPED of malloc.c

from trainload_worker.process import allocator
if sys.argv[1] == "held":
    assert allocator.hold_thresholds()
if sys.argv[1] == "list":
    items = []
    for number in range(2_000_000):
        items.append(None)
    allocator.let_go_slowly(items)
    assert items == []
    del items
print(is_taken_apart(), is_taken_apart())
"""


def run_program(word: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path), **environment},
    )
    return done.stdout.strip()


def test_a_large_block_that_is_freed_no_longer_moves_the_thresholds() -> None:
    assert run_program("free") == "True False"
    assert run_program("held") == "True True"


def test_a_long_list_that_is_let_go_slowly_does_not_move_them() -> None:
    assert run_program("list") == "True False"


def test_the_users_own_setting_stands() -> None:
    assert run_program("held", MALLOC_MMAP_MAX_="0") == "False False"
