"""Which instructions the kernels of a CUDA graph are of: XLA names the graph alone.

XLA puts runs of instructions into one graph ("command buffer"), whose kernels carry its name. Those
of fusions are named after their instruction; a library's follow the order of the program.
"""

from __future__ import annotations

import re
from typing import Sequence

from trainload_worker.frameworks.xla.text import Computation

_PLAIN = re.compile(r"[^A-Za-z0-9]")
_LIBRARY = ("custom-call", "dot", "convolution")
_FILLS = ("Memset", "MemcpyD2D", "Memcpy")


class GraphKernels:
    """Follows the kernels of a program's graphs in order of time."""

    def __init__(self, program: Sequence[Computation]) -> None:
        entry = next((c for c in program if c.is_entry), None)
        order = list(entry.instructions.values()) if entry is not None else []
        self._order = [instruction.name for instruction in order]
        self._named = {_PLAIN.sub("_", one.name): at for at, one in enumerate(order)}
        self._library = [at for at, one in enumerate(order) if one.opcode in _LIBRARY]
        self._at = -1
        self._called = -1

    def find(self, kernel: str) -> str:
        """The instruction that a kernel is of; empty where there is none."""
        named = self._named.get(_PLAIN.sub("_", kernel))
        if named is not None:
            self._at = named
            return self._order[named]
        if kernel.startswith(_FILLS):
            return ""
        # The next one of the program, else one more kernel of the last: products may take two.
        following, upcoming = self._next_library(), self._next_fusion()
        if following is None and upcoming is None:
            # The program is at its end: the next step begins.
            self._at = self._called = -1
            following, upcoming = self._next_library(), self._next_fusion()
        if following is not None and (upcoming is None or following < upcoming):
            self._at = self._called = following
        return self._order[self._called] if self._called >= 0 else ""

    def pass_by(self, instruction: str) -> None:
        """An instruction ran outside of graphs."""
        self._at = self._named.get(_PLAIN.sub("_", instruction), self._at)

    def _next_library(self) -> int | None:
        return next((at for at in self._library if at > self._at), None)

    def _next_fusion(self) -> int | None:
        """Where the next instruction stands that is sure to leave a kernel of its own name."""
        return next(
            (at for at in self._named.values() if at > self._at and "fusion" in self._order[at]),
            None,
        )
