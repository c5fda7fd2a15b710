"""`enough` as a study's stopping rule: until intervals are narrow or the ranking is decided."""

from __future__ import annotations

from collections.abc import Mapping

from trainload.study.enough import RankRule, WidthRule, next_repetitions
from trainload.study.file import StoppingOptions
from trainload.study.stopping import CellValues


class UntilEnough:
    """The rule of the file's key `stopping`."""

    def __init__(self, asked: StoppingOptions) -> None:
        self.metric = asked.metric or asked.rank_by
        self.most = asked.warmup + asked.maximum
        self._rule: WidthRule | RankRule = (
            WidthRule(
                width_fraction=asked.width,
                minimum=asked.minimum,
                maximum=asked.maximum,
                warmup=asked.warmup,
            )
            if asked.metric is not None
            else RankRule(
                width_fraction=asked.width,
                top=asked.top,
                lower_is_better=not asked.highest,
                minimum=asked.minimum,
                maximum=asked.maximum,
                warmup=asked.warmup,
            )
        )

    def next(self, values: CellValues) -> frozenset[str]:
        """The cells that are not measured well enough yet and may still be repeated."""
        return next_repetitions(values, self._rule).wanted

    def reasons(self, values: CellValues) -> Mapping[str, str]:
        """The state of each cell's interval or rank, and what is unstable."""
        verdicts = next_repetitions(values, self._rule).verdicts
        return {
            cell: found.reason if found.unstable is None else f"{found.reason}; {found.unstable}"
            for cell, found in verdicts.items()
        }
