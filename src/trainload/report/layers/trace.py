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
from trainload.record.inside import open_inside, unpack


def save_trace(run: Run, path: Path, *, rank: int = 0) -> None:
    """Write the windows of one process to `path`, packed where its name ends in `.gz`.

    RecordError where the process was not traced, the trace is cut short, or `path` cannot be
    written; then nothing is left at `path`.
    """
    source = run.traces.get(rank)
    if source is None:
        raise RecordError(_absence(run, rank))
    if path.is_dir():
        raise RecordError(f"cannot write {path}: it is a folder; name a file such as out.json.gz")
    try:
        with open_inside(source) as packed, replacing(path) as out:
            packs = path.suffix == ".gz"
            for piece in unpack(packed):
                out.write(b"" if packs else piece)
            if packs:  # it is whole: its checksum, which stands at the end, was right
                packed.seek(0)
                shutil.copyfileobj(packed, out)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RecordError(f"the trace {source} is damaged or cut short: {error}") from error
    except OSError as error:
        raise RecordError(f"cannot copy {source} to {path}: {error.strerror or error}") from error


def _absence(run: Run, rank: int) -> str:
    """Why the run has no trace of that rank, and what to do about it."""
    if run.running:
        return f"{run.path} still runs: its trace is written when it ends"
    ranks = list(run.traces)
    if not ranks:
        return f"{run.path} has no traced windows; record some with trainload run … --layers"
    listed = ", ".join(map(str, ranks))
    return f"{run.path} has no trace of rank {rank}; there are traces of rank {listed}"
