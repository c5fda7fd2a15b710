"""The command line: one file per verb; alone parses, prints and exits.

Verbs import what they need when they run, so that `trainload --help` stays quick.
"""

import gc
import io
import os
import resource
import signal
import sys

_ADDRESS_SPACE_BYTES = 3 << 30
"""The tables' library reserves about this much before it reads anything, and hangs with less."""


def main() -> None:
    """Entry of the `trainload` command: exit status 2 and one clear line for bad input."""
    _fill_streams()
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit not in (resource.RLIM_INFINITY, -1) and limit < _ADDRESS_SPACE_BYTES:
        sys.stderr.write(
            f"error: this process may address {limit / 1e6:.0f} MB (ulimit -v), too little for "
            f"tables; allow {_ADDRESS_SPACE_BYTES / 1e6:.0f} MB, or none: ulimit -v unlimited\n"
        )
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no µ still gets its line
    try:
        from trainload.cli.app import run_app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        sys.stderr.write(
            f"error: the command line needs {error.name}, which is not installed; "
            f"pip install {error.name}, or measure with python -m trainload.run\n"
        )
        sys.exit(2)
    status = run_app(sys.argv[1:])
    # All has been said: an impatient Ctrl-C must not take the exit status along.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()  # the process ends: to search all it holds for cycles would only take time
    sys.exit(status)


def _fill_streams() -> None:
    """Has something under the numbers 0 to 2, where a caller closed them: `trainload run … 2>&-`.

    The next file opened would be taken for the stream otherwise, by us and by the training.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115
