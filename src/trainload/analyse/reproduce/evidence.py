"""What was measured, as claims look at it: the values of a cell, and why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainload.analyse.study import TidyStudy

if TYPE_CHECKING:
    import polars as pl

_NEEDED = (
    ("gpu", "no GPU was used here"),
    ("vram", "no GPU was used here"),
    ("power", "no meter of power here"),
    ("energy", "no meter of energy here"),
)

_HELD = ("peak_allocated_bytes", "peak_gpu_bytes")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The runs of a study that count, and what kind of study it was."""

    study: TidyStudy
    quick: bool

    @property
    def gpu(self) -> bool:
        """Whether some run that counts held memory of a GPU: a load alone may be another's."""
        counted = self.study.counted
        held = [counted[name].max() for name in _HELD if name in counted.columns]
        return any(isinstance(most, float) and most > 0 for most in held)

    def values(self, levels: Mapping[str, str], metric: str) -> list[float]:
        """The metric in the runs of one cell; factors not named have their base level."""
        return [v for v in self.rows(levels, (metric,))[0] if v is not None]

    def rows(self, levels: Mapping[str, str], metrics: tuple[str, ...]) -> list[list[float | None]]:
        """Of each metric the values of one cell's runs, in the same order; null where missing."""
        found = self._cell(levels)
        return [found[m].to_list() if m in found.columns else [] for m in metrics]

    def why_missing(self, levels: Mapping[str, str], metric: str) -> str:
        """Why a cell has no value of a metric, in words."""
        import polars as pl

        cell = self._whole(levels)
        unknown = [name for name in cell if name not in self.study.factors]
        if unknown:
            return f"the study has no factor {unknown[0]}"
        if self._cell(levels).height:
            known = (said for part, said in _NEEDED if part in metric)
            return next(known, f"no run tells {metric}")
        absent = self.study.missing.filter([pl.col(n) == level for n, level in cell.items()])
        said = absent["reason"].to_list()
        title = " ".join(f"{n}={level}" for n, level in levels.items())
        return f"{title}: {said[0] if said else 'not in this study'}"

    def _whole(self, levels: Mapping[str, str]) -> dict[str, str]:
        return {**self.study.base, **levels}

    def _cell(self, levels: Mapping[str, str]) -> pl.DataFrame:
        import polars as pl

        counted = self.study.counted
        cell = self._whole(levels)
        if any(name not in self.study.factors for name in cell):
            return counted.clear()
        return counted.filter([pl.col(name) == level for name, level in cell.items()])
