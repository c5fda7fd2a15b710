"""The capability of the GPU that is not there: what the step asks of it, and who answers alike.

Knows numbers alone; no torch.
"""

from __future__ import annotations

_LEAST, _BEYOND = (0, 0), (1000, 0)


class Capability:
    """A compute capability that notes which others would have given the same answers."""

    def __init__(self, number: tuple[int, int]) -> None:
        self._number = number
        self._from, self._below = _LEAST, _BEYOND

    @property
    def alike(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The least capability with the same answers so far, and the first above without."""
        return self._from, self._below

    def at_least(self, mark: tuple[int, int]) -> bool:
        """Whether it is that one or a later one."""
        if self._number >= mark:
            self._from = max(self._from, mark)
            return True
        self._below = min(self._below, mark)
        return False

    def tell(self) -> tuple[int, int]:
        """The number itself: no other answers alike."""
        major, minor = self._from = self._number
        self._below = (major, minor + 1)
        return self._number
