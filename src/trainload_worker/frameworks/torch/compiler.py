"""Keeps torch's compiler from reading functions of ours that stand in a program's way.

A program's function that is compiled in parts calls them with the compiler at work. These are inner
doors of torch; where one is missing the compiler reads ours like any other, which costs graphs.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch

_doors: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)


def _no_door(_compiler: Any) -> None:
    """Stands where torch has none."""


# Not get_eval_frame_callback: torch 2.6 counts a reference too few there.
set_compiler: Callable[[Any], Any] = getattr(_doors, "set_eval_frame", _no_door)
"""Has the functions that this thread calls read by another compiler, or by none; which it was."""


def hide_from_compiler(functions: Iterable[Any]) -> None:
    """Has the compiler run these as they are; what they call it reads, unless they stop it."""
    try:
        for function in functions:
            if hasattr(_doors, "skip_code"):
                _doors.skip_code(function.__code__)
            else:
                skip, usual = _doors._FrameAction.SKIP, _doors._FrameAction.DEFAULT
                plan = _doors._FrameExecStrategy(skip, usual)
                _doors.set_code_exec_strategy(function.__code__, plan)
    except (AttributeError, TypeError):
        return


def interrupting_compiler(function: Any) -> Any:
    """The same function, which compiled code calls as it is instead of taking it in."""
    function._torchdynamo_disable = True
    hide_from_compiler((function,))
    return function
