"""Export of the traced windows of one process as a file that Perfetto and Chrome read.

The sealed trace is such a file already: it is copied, never read for its meaning.
"""

import gzip
import shutil
import zlib
from pathlib import Path

from trainload.errors import RecordError
from trainload.files import replacing
from trainload.record import Run
from trainload.record.layout import TRACE_GLOB, rank_of, trace_file


def save_trace(run: Run, path: Path, *, rank: int = 0) -> None:
    """Write the windows of one process to `path`, packed where its name ends in `.gz`.

    RecordError where the process was not traced, the trace is cut short, or `path` cannot be
    written; then nothing is left at `path`.
    """
    source = run.path / trace_file(rank)
    if not source.is_file():
        raise RecordError(_absence(run, rank))
    if path.is_dir():
        raise RecordError(f"cannot write {path}: it is a folder; name a file such as out.json.gz")
    try:
        with source.open("rb") as packed, replacing(path) as out:
            if path.suffix == ".gz":
                _check_whole(source)
                shutil.copyfileobj(packed, out)
            else:
                with gzip.open(packed) as plain:
                    shutil.copyfileobj(plain, out)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RecordError(f"the trace {source} is damaged or cut short: {error}") from error
    except OSError as error:
        raise RecordError(f"cannot copy {source} to {path}: {error.strerror or error}") from error


def _check_whole(source: Path) -> None:
    """Read a packed file through; its checksum stands at the end."""
    with gzip.open(source) as plain:
        while plain.read(1 << 20):
            pass


def _absence(run: Run, rank: int) -> str:
    """Why the run has no trace of that rank, and what to do about it."""
    if run.running:
        return f"{run.path} still runs: its trace is written when it ends"
    found = (rank_of(file.name) for file in run.path.glob(TRACE_GLOB))
    ranks = sorted(number for number in found if number is not None)
    if not ranks:
        return f"{run.path} has no traced windows; record some with trainload run … --layers"
    listed = ", ".join(map(str, ranks))
    return f"{run.path} has no trace of rank {rank}; there are traces of rank {listed}"
