"""Bounds of a number, and the annotation that carries them, for Python 3.8 too."""

from __future__ import annotations

import sys
import typing
from dataclasses import dataclass
from typing import Any, Optional

if sys.version_info >= (3, 9):
    from typing import Annotated as Annotated
else:

    class Annotated:
        """Stands in where Python has none: the driver has checked the bounds already."""

        def __class_getitem__(cls, parts: Any) -> Any:
            return parts[0]


@dataclass(frozen=True)
class Bounds:
    """Inclusive bounds of a number, used as `Annotated[int, Bounds(low=1)]`."""

    low: Optional[float] = None
    high: Optional[float] = None
    above: Optional[float] = None
    """Exclusive lower bound."""
    below: Optional[float] = None
    """Exclusive upper bound."""

    def complaint(self, value: float) -> str | None:
        """What is wrong with `value`, or None."""
        if self.low is not None and value < self.low:
            return f"must be at least {self.low:g}"
        if self.above is not None and value <= self.above:
            return f"must be above {self.above:g}"
        if self.high is not None and value > self.high:
            return f"must be at most {self.high:g}"
        if self.below is not None and value >= self.below:
            return f"must be below {self.below:g}"
        return None


def unwrap(annotation: Any) -> tuple[Any, Bounds | None]:
    """The type that an annotation stands for, and its bounds; None where it has none."""
    if sys.version_info >= (3, 9) and typing.get_origin(annotation) is Annotated:
        base, *extras = typing.get_args(annotation)
        return base, next((e for e in extras if isinstance(e, Bounds)), None)
    return annotation, None
