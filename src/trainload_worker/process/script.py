"""Runs a user's script as it stands, as if called by its own name; knows no framework.

What Python itself would do at its end is done here: the script may have replaced anything of ours.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType

from trainload_worker.protocol.spec import ScriptSpec

under_way = False
"""Whether this process runs a user's script under the driver's eyes."""
_DEPTH = 1000
"""Python's own limit of recursion, under which our last words are written."""


def run_script(spec: ScriptSpec) -> None:
    """Runs the script and the threads it leaves to their end.

    What it raises passes through, SystemExit too: it is the outcome of the run.
    """
    global under_way
    under_way = True
    if spec.stdin_fd is not None:
        _take_stdin(spec.stdin_fd)
    sys.argv = [spec.path, *spec.arguments]
    # As `python script.py` does: the script's own folder comes first.
    sys.path.insert(0, os.path.dirname(spec.path))
    # It stays for good: threads and exit handlers look for the script's classes there.
    module = sys.modules["__main__"] = _main_module(spec.path)
    with open(spec.path, "rb") as file:
        code = compile(file.read(), spec.path, "exec", dont_inherit=True)
    try:
        exec(code, module.__dict__)  # noqa: S102 - to run the user's script is what is asked
    finally:
        # Here and not in a function: a trace function would be called for that.
        sys.settrace(None)
        sys.setprofile(None)
        if sys.getrecursionlimit() < _DEPTH:
            sys.setrecursionlimit(_DEPTH)
    _end_threads()


def _take_stdin(fd: int) -> None:
    """Puts what the program reads where it looks for it: until now our own words came there."""
    os.dup2(fd, 0)
    os.close(fd)
    before = sys.stdin
    sys.stdin = open(  # noqa: SIM115 - for as long as the process lives
        0, encoding=before.encoding, errors=before.errors, closefd=False
    )
    vars(sys)["__stdin__"] = sys.stdin


def _end_threads() -> None:
    """Ends the script's threads as Python does: pools are told that no more work comes, then all
    but daemons are waited for."""
    # Not in Python 3.8, whose pools are daemons.
    calls = getattr(threading, "_threading_atexits", [])
    while calls:
        calls.pop()()
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def exit_status(end: SystemExit) -> int:
    """The status that Python ends with."""
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1


def show_error(error: BaseException, path: str) -> None:
    """Shows what ended the script as Python does, by the script's own hook where it has one."""
    error.__traceback__ = trace = _script_trace(error.__traceback__, path)
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as second:  # noqa: BLE001 - whatever the hook raises is shown as Python does
        _write_error("Error in sys.excepthook:\n")
        second.__traceback__ = _script_trace(second.__traceback__, path)
        sys.__excepthook__(type(second), second, second.__traceback__)
        _write_error("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, trace)


def words_of(value: object) -> str:
    """An object of the script's in words; by its kind alone where it has none."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - it is the user's own code that runs here
        return f"<{type(value).__name__} without words>"


def _main_module(path: str) -> ModuleType:
    module = ModuleType("__main__")
    module.__file__ = path
    module.__loader__ = SourceFileLoader("__main__", path)
    vars(module)["__cached__"] = None
    vars(module)["__builtins__"] = sys.modules["builtins"]
    if "__annotations__" in vars(sys.modules["__main__"]):  # not from Python 3.14 on
        vars(module)["__annotations__"] = {}
    return module


def _script_trace(trace: TracebackType | None, path: str) -> TracebackType | None:
    """From the script's own first frame on; None where no frame of it was reached."""
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace


def _write_error(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # closed: Python says nothing either
            sys.stderr.write(text)
