"""Time against iterations done, for any number of points in bounded memory; knows no log."""

from __future__ import annotations

import struct
from tempfile import SpooledTemporaryFile

_POINT = struct.Struct("<dq")
_KEPT_BYTES = 1 << 24
"""A million points stay in memory; more go to a temporary file."""


class ProgressCurve:
    """Points of (iterations done, nanoseconds since the start), both never falling."""

    def __init__(self, *, kept_bytes: int = _KEPT_BYTES) -> None:
        # Closed by __exit__: the curve outlives this call.
        self._file = SpooledTemporaryFile(max_size=kept_bytes)  # noqa: SIM115
        self._count = 0
        self._last: tuple[float, int] | None = None

    def __enter__(self) -> ProgressCurve:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def last(self) -> tuple[float, int] | None:
        """The latest point."""
        return self._last

    def add(self, done: float, elapsed_ns: int) -> None:
        """Append a point; one that does not lead further than the last is left out.

        Earlier points that claim a later time give way: sums of single times are rougher than the
        time of the whole epoch that follows them.
        """
        if self._last is not None and done <= self._last[0]:
            return
        while self._count and self._point(self._count - 1)[1] > elapsed_ns:
            self._count -= 1
        self._file.seek(self._count * _POINT.size)
        self._file.write(_POINT.pack(done, elapsed_ns))
        self._count += 1
        self._last = (done, elapsed_ns)

    def time_ns(self, done: float) -> float | None:
        """Nanoseconds after which so many iterations were done, linear between points.

        None before the first point and after the last.
        """
        if self._last is None or done > self._last[0]:
            return None
        low, high = 0, self._count - 1
        while low < high:
            middle = (low + high) // 2
            if self._point(middle)[0] < done:
                low = middle + 1
            else:
                high = middle
        after, after_ns = self._point(low)
        if after == done:
            return after_ns
        if low == 0:
            return None
        before, before_ns = self._point(low - 1)
        return before_ns + (after_ns - before_ns) * ((done - before) / (after - before))

    def _point(self, index: int) -> tuple[float, int]:
        self._file.seek(index * _POINT.size)
        done, elapsed_ns = _POINT.unpack(self._file.read(_POINT.size))
        return done, elapsed_ns
