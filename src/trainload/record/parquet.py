"""Bytes of a Parquet file as a frame, measured by its metadata first; run as a program, the trial.

Stands alone: polars and the standard library, so that a trial begins quickly. Over a damaged file
polars can abort its process (a page's header names a size that no memory holds) or panic, so
`record/trial.py` lets this program read a stranger's table before ours does.
"""

from __future__ import annotations

import io
import json
import os
import resource
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS = 4096
MOST_CELLS = 1 << 27
"""Of one table, 8 bytes each."""
MOST_PACKED = 100
"""Cells' bytes for each byte of the file: a record's own tables stay far below."""
_ALWAYS_CELLS = 1 << 22

LENGTH_BYTES = 8
"""Before each file on the trial's standard input; 0 asks for a word of life."""
IDLE_S = 30.0
"""A trial process that is not asked for so long ends."""
_LEAST_MEMORY_BYTES = 256 << 20
_MOST_MEMORY_BYTES = 4 << 30
_LEAST_CPU_S = 5
_BYTES_PER_CPU_S = 10 << 20


class Unreadable(Exception):
    """What is wrong with a table, as the end of a sentence that begins with its name."""


def read_columns(
    data: bytes, columns: Sequence[str] | None = None, *, absent: bool = False
) -> pl.DataFrame:
    """These columns, or those that hold numbers; Unreadable where it is no table or too much.

    With `absent` a column that is not there, or holds no numbers, is passed over.
    """
    return _read(data, columns, every=False, absent=absent)


def read_note(data: bytes, key: str) -> str:
    """A text that was kept with the table under a name; empty where there is none."""
    import polars as pl

    try:
        return pl.read_parquet_metadata(io.BytesIO(data)).get(key, "")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise Unreadable(f"is damaged: {_first_line(error)}") from None


def _read(
    data: bytes, columns: Sequence[str] | None, *, every: bool, absent: bool = False
) -> pl.DataFrame:
    import polars as pl

    try:
        schema = pl.read_parquet_schema(io.BytesIO(data))
        if len(schema) > MOST_COLUMNS:
            raise Unreadable(f"has {len(schema):,} columns; {MOST_COLUMNS:,} are read")
        numbers = [name for name, kind in schema.items() if kind.is_numeric()]
        wanted = list(schema) if every else list(columns or numbers)
        if absent:
            wanted = [name for name in wanted if name in numbers]
        rows = int(pl.scan_parquet(io.BytesIO(data)).select(pl.len()).collect().item())
        _check_size(rows, len(schema), len(data))
        return pl.read_parquet(io.BytesIO(data), columns=wanted, n_rows=rows)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        raise Unreadable(f"is damaged: {_first_line(error)}") from None


def _check_size(rows: int, columns: int, size_bytes: int) -> None:
    cells = rows * max(1, columns)
    if cells > _ALWAYS_CELLS and (cells > MOST_CELLS or 8 * cells > MOST_PACKED * size_bytes):
        raise Unreadable(
            f"says it has {rows:,} rows in {size_bytes:,} bytes, which no run leaves; "
            "it is not read"
        )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "it cannot be read")[:200]


def main() -> None:
    """Read one file after another from standard input; a line of JSON for each says what is wrong.

    null where nothing is. Ends with its standard input, or when nobody asks. Arguments are folders
    where polars may be found.
    """
    sys.path += sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import polars as pl  # noqa: F401 - before the memory is limited

    taken = _address_space_bytes()
    source, answers = os.fdopen(0, "rb", buffering=0), sys.stdout.buffer
    while select.select([source], [], [], IDLE_S)[0]:
        head = _exactly(source, LENGTH_BYTES)
        if len(head) < LENGTH_BYTES:
            return
        data = _exactly(source, int.from_bytes(head, "big"))
        answers.write(json.dumps(_trouble(data, taken) if data else None).encode() + b"\n")
        answers.flush()


def _trouble(data: bytes, taken_bytes: int) -> str | None:
    _limit(len(data), taken_bytes)
    try:
        _read(data, None, every=True)
        read_note(data, "")
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return "needs more memory than a table of its size may"
    return None


def _limit(size_bytes: int, taken_bytes: int) -> None:
    """What one file may take of memory and of a core's time; beyond it the kernel ends us."""
    more = min(_MOST_MEMORY_BYTES, _LEAST_MEMORY_BYTES + 2 * MOST_PACKED * size_bytes)
    memory = taken_bytes + more
    spent_s = sum(os.times()[:2])
    cpu_s = int(spent_s) + 1 + _LEAST_CPU_S + size_bytes // _BYTES_PER_CPU_S
    for kind, limit in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu_s)):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(kind, (limit, hard))


def _address_space_bytes() -> int:
    """What this process has before its first file; a gigabyte where the kernel does not tell."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 1 << 30


def _exactly(source: io.RawIOBase, count: int) -> bytes:
    """So many bytes, fewer where the stream ends."""
    pieces = []
    while count and (piece := source.read(min(count, 1 << 20))):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


if __name__ == "__main__":
    main()
