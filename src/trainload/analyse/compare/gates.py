"""Thresholds that a comparison must not clear: parsed from words, judged by intervals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from trainload.analyse.compare.metrics import STEP
from trainload.analyse.compare.values import Comparison
from trainload.analyse.study.best import higher_is_better
from trainload.errors import UsageError

_FORM = re.compile(r"(?P<what>[A-Za-z0-9_.]+):(?P<sign>[+-]?)(?P<percent>\d+(?:\.\d+)?)%?")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A metric, and the relative change that is too much."""

    metric: str
    fraction: float
    upwards: bool
    """Whether growing is what must not happen."""
    text: str

    def failures(self, found: Comparison) -> Iterator[str]:
        """A sentence where the whole interval lies beyond the threshold.

        UsageError where neither side tells the metric: a check that can never fail is none.
        """
        metric = found.metric(self.metric)
        if metric is None or (metric.a is None and metric.b is None):
            known = ", ".join(one.name for one in found.metrics[:12])
            raise UsageError(f"--fail-if {self.text}: no run tells {self.metric}; known: {known} …")
        if metric.a is None or metric.low is None or metric.high is None:
            return
        limit = self.fraction * abs(metric.a)
        if metric.low > limit if self.upwards else metric.high < -limit:
            low, high = (100 * bound / abs(metric.a or 1) for bound in (metric.low, metric.high))
            yield (
                f"{found.b} against {found.a}: {self.metric} {metric.percent or 0:+.1f} % "
                f"({low:+.1f} … {high:+.1f} %), beyond {self.text}"
            )


def parse_gate(text: str) -> Gate:
    """`slower:5%`, `faster:5%`, `METRIC:5%` (worse), `METRIC:+5%`, `METRIC:-5%`."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--fail-if {text}: write slower:5% or METRIC:PERCENT")
    what, sign, fraction = match["what"], match["sign"], float(match["percent"]) / 100
    if what in ("slower", "faster"):
        return Gate(metric=STEP, fraction=fraction, upwards=what == "slower", text=text)
    upwards = sign == "+" if sign else not higher_is_better(what)
    return Gate(metric=what, fraction=fraction, upwards=upwards, text=text)
