"""Lets processes that train together trace the same steps: the first decides, the others follow.

They wait for each other in every step, so that windows at different steps would cost each of them
the time of all. What is agreed stands in a small file, a line for each window.
"""

from __future__ import annotations

import os

from trainload_worker.windows.plan import WindowShape

AHEAD_STEPS = 3
"""A window is announced so many steps before it opens: nobody is farther behind than that."""


class Agreement:
    """One process's view of what is agreed."""

    def __init__(self, path: str, leads: bool) -> None:
        self._path = path
        self._leads = leads
        self._size = 0
        self._next: tuple[int, WindowShape] | None = None

    def settle(self, step: int, wanted: WindowShape | None) -> WindowShape | None:
        """The window to open after this step, if one is; `wanted` counts in the first process."""
        if not self._leads:
            self._look()
        elif wanted is not None and self._next is None:
            self._announce(step + AHEAD_STEPS, wanted)
        if self._next is None or step < self._next[0]:
            return None
        at, shape = self._next
        self._next = None
        return shape if step == at else None

    def _announce(self, step: int, shape: WindowShape) -> None:
        line = f"{step} {shape.purpose} {shape.warm_steps} {shape.steps}\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            os.write(descriptor, line.encode("ascii"))
        finally:
            os.close(descriptor)
        self._next = step, shape

    def _look(self) -> None:
        """Reads the newest line when there is one."""
        try:
            size = os.stat(self._path).st_size
        except FileNotFoundError:
            return
        if size == self._size:
            return
        self._size = size
        with open(self._path, encoding="ascii") as file:
            step, purpose, warm_steps, steps = file.read().splitlines()[-1].split()
        self._next = int(step), WindowShape(purpose, int(warm_steps), int(steps))
