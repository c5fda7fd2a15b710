"""Runs a user's script as it stands, as if called by its own name; knows no framework."""

from __future__ import annotations

import os
import runpy
import sys

from trainload_worker.errors import ScriptError
from trainload_worker.protocol.spec import ScriptSpec


def run_script(spec: ScriptSpec) -> None:
    """Runs the script to its end; ScriptError where it exits with a status other than 0.

    What the script raises passes through: it is the outcome of the run.
    """
    sys.argv = [spec.path, *spec.arguments]
    # As `python script.py` does: the script's own folder comes first.
    sys.path.insert(0, os.path.dirname(spec.path))
    try:
        runpy.run_path(spec.path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ScriptError(f"the script exited with {end.code!r}") from None
