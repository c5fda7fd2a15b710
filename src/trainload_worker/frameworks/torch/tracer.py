"""Traces torch operations and layers for the length of one window; decides nothing about when.

While a window is open every module's forward pass stands in a range of its name, the backward
pass in one of its own; outside of windows nothing is installed. Kineto's own doors are used
rather than torch.profiler, which would also parse what it recorded, in the training's time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import warnings
from typing import Any

import torch
from torch._C._profiler import _ExperimentalConfig, _RecordFunctionFast
from torch.autograd import profiler as kineto
from torch.compiler import is_dynamo_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from trainload_worker.frameworks.torch.compiler import hide_from_compiler
from trainload_worker.frameworks.torch.modules import ModuleNames
from trainload_worker.process.allocator import hold_thresholds

MOST_CALLS = 200_000
"""Calls of modules in one window: beyond that a trace is too large to be of use."""
DETACHING = "TEARDOWN_CUPTI"
"""Kineto's variable: whether it lets go of the driver after a trace (pytorch issue 144455)."""
SAFE_CUDA = (12, 6)
"""From here on letting go is safe beside CUDA graphs; before it has crashed (pytorch 112507)."""


class Tracer:
    """Opens and closes one window at a time."""

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._hooks: list[Any] = []
        self._ranges = threading.local()
        self._calls = 0
        self._backward: Any = None
        self._original: Any = None
        self.active = False
        self.used = False
        """Whether a window was ever opened."""

    @property
    def overflown(self) -> bool:
        """Whether the window grew too large."""
        return self._calls > MOST_CALLS

    @staticmethod
    def is_taken() -> bool:
        """Whether the program is profiling itself at this moment."""
        return bool(torch.autograd._profiler_enabled())

    def open(self, memory: bool) -> None:
        """Starts the profiler, hooks module calls; with `memory`, allocations and shapes too."""
        activities = {kineto.ProfilerActivity.CPU}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            activities.add(kineto.ProfilerActivity.CUDA)
        config = kineto.ProfilerConfig(
            kineto.ProfilerState.KINETO, memory, memory, False, False, False, _ExperimentalConfig()
        )
        if "torch._dynamo" in sys.modules:
            # Compiled models warn of hooks; as an error that would end the program.
            warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there")
        let_go_after_traces()
        hold_thresholds()
        self._calls = 0
        # A module left by an interrupt, or while no window was open, never met its end.
        self._ranges = threading.local()
        self.used = True
        kineto._prepare_profiler(config, activities)
        kineto._enable_profiler(config, activities)
        # Compiled code looks here before it names its graph and its kernels.
        kineto._is_profiler_enabled = True
        self.active = True
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        self._cover_backward()

    def mark(self, step: int) -> None:
        """Puts the end of a step into the trace."""
        with _RecordFunctionFast(f"trainload.step:{step}"):
            pass

    def close(self, path: str | None) -> None:
        """Ends the trace and saves it; with no path it is thrown away."""
        self._uninstall()
        self.active = False
        results = kineto._disable_profiler()
        if path is not None:
            # Under its name a trace is whole, whatever happens while it is saved.
            results.save(f"{path}.part")
            try:
                os.replace(f"{path}.part", path)
            except FileNotFoundError:
                # Kineto keeps quiet when it cannot write, and leaves what it had under this name.
                with contextlib.suppress(OSError):
                    os.remove(f"{path}.part.tmp")
                raise OSError("a window could not be saved; is the disk full?") from None

    def abandon(self) -> None:
        """Takes the hooks away and leaves the trace to whoever owns it."""
        self._uninstall()
        self.active = False
        if self.used:
            _skip_exit_handlers()

    def _uninstall(self) -> None:
        kineto._is_profiler_enabled = False
        while self._hooks:
            self._hooks.pop().remove()
        # A program that put its own in place meanwhile keeps it: ours then only passes on.
        if torch.autograd.backward is self._backward and self._backward is not None:
            torch.autograd.backward = self._original
        self._backward = self._original = None

    def _cover_backward(self) -> None:
        original = torch.autograd.backward

        def backward(*args: Any, **kwargs: Any) -> Any:
            # The compiler first: it cannot read a range, and must read nothing of ours.
            if is_dynamo_compiling() or self._backward is not backward:
                return original(*args, **kwargs)
            with _RecordFunctionFast("trainload.backward"):
                return original(*args, **kwargs)

        hide_from_compiler((backward,))
        self._original, self._backward = original, backward
        torch.autograd.backward = backward

    def _enter(self, module: Any, _arguments: Any) -> None:
        # Seen as true by the compiler while it reads a model: hooks leave no mark in its code.
        if torch.compiler.is_compiling():
            return
        open_ranges = self._open_ranges()
        caller = open_ranges[-1][1] if open_ranges else None
        self._calls += 1
        try:
            name = self._names.name(module, caller)
            opened = None if name is None else _RecordFunctionFast(name)
            if opened is not None:
                opened.__enter__()
        except Exception:  # noqa: BLE001 - a nameless layer is no reason to end a training
            opened, name = None, caller
        open_ranges.append((opened, name))

    def _leave(self, _module: Any, _arguments: Any, _output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        open_ranges = self._open_ranges()
        # Hooks installed while a module ran meet its end alone.
        opened = open_ranges.pop()[0] if open_ranges else None
        if opened is not None:
            opened.__exit__(None, None, None)

    def _open_ranges(self) -> list[tuple[Any, str | None]]:
        try:
            found: list[tuple[Any, str | None]] = self._ranges.open
        except AttributeError:
            found = self._ranges.open = []
        return found


def let_go_after_traces() -> bool:
    """Has Kineto detach its library from the CUDA driver when a trace ends; False where unsafe.

    Attached, it slows every later call of the driver: 30 % of a step with many small kernels. What
    the user has set stands.
    """
    if DETACHING not in os.environ and _cuda_version() >= SAFE_CUDA:
        os.environ[DETACHING] = "1"
    return os.environ.get(DETACHING) == "1"


def _cuda_version() -> tuple[int, ...]:
    """Of the CUDA that torch was built with; (0,) where it was built without."""
    found = (torch.version.cuda or "0").split(".")
    return tuple(int(part) for part in found[:2] if part.isdigit())


def _skip_exit_handlers() -> None:
    """Lets this forked process end without those that its parent's libraries left behind.

    Kineto's would wait there for a thread of its own that no fork takes along. Only glibc's door
    hands the exit status on; elsewhere nothing is done.
    """
    try:
        libc = ctypes.CDLL(None)
        # The last one registered comes first: what is printed is written, then all ends.
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)
    except (AttributeError, OSError, TypeError):
        pass


def settle(device: Any) -> None:
    """Waits until the device has done all it was given."""
    if device is not None and device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("the device is recording a graph")
        torch.cuda.synchronize(device)
