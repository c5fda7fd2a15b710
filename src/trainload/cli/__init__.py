"""The command line: one file per verb; alone parses, prints and exits.

Verbs import what they need when they run, so that `trainload --help` stays quick.
"""

import gc
import io
import signal
import sys


def main() -> None:
    """Entry of the `trainload` command: exit status 2 and one clear line for bad input."""
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
