"""Rules, verdicts and a machine's figures in words, for the terminal and the page alike."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from trainload.analyse.rules import Checked, JudgedRule, RuleFile
from trainload.hardware.limits import MachineLimits
from trainload.report.reproduce.wording import render_reading
from trainload.report.wording import clean_text
from trainload.units import MISSING
from trainload_worker.protocol.measure import Measured

RULE_TITLES = ("verdict", "rule", "predicts", "measured here", "why", "place")
LIMIT_TITLES = ("figure", "at", "best", "median", "spread", "samples")
_SCALES = (
    ("bytes/s", ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "bytes/s"))),
    ("FLOP/s", ((1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s"))),
    ("s", ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))),
)


class RulesLike(Protocol):
    """What was found of the rules, wherever it comes from."""

    @property
    def file(self) -> RuleFile: ...
    @property
    def limits(self) -> MachineLimits: ...
    @property
    def judged(self) -> tuple[JudgedRule, ...]: ...


def render_title(found: RulesLike) -> str:
    """`hardware-recommendations, quick form`."""
    return f"{found.file.study}{', quick form' if found.limits.quick else ''}"


def render_machine(limits: MachineLimits) -> str:
    """Processor, cores, GPU and date, in one line."""
    facts = limits.facts
    said = f"{facts.get('cpu', 'a processor of unknown name')}, {facts.get('cores', '?')} cores"
    gpu = facts.get("gpu", "none")
    said += f", {gpu}" if gpu != "none" else ", no GPU"
    return clean_text(f"{said}; {limits.taken_at}")


def render_counts(judged: Sequence[JudgedRule]) -> str:
    """How many rules got which verdict."""
    counts = Counter[str](one.verdict for one in judged)
    return (
        f"{len(judged)} rules: {counts['holds']} hold here, {counts['does not hold']} do not, "
        f"{counts['cannot tell']} cannot be told, {counts['dated']} are dated"
    )


def rule_row(one: JudgedRule) -> tuple[str, ...]:
    """A rule in the columns of RULE_TITLES."""
    says = one.rule.says if one.rule.formula is None else f"{one.rule.says} {one.rule.formula}"
    return (
        one.verdict,
        says,
        one.rule.predicts,
        "; ".join(map(render_checked, one.checked)) or MISSING,
        clean_text(one.reason),
        one.rule.place,
    )


def render_checked(one: Checked) -> str:
    """`all threads over one: 1.9 [1.8, 2]`."""
    return f"{one.words}: {render_reading(one.figure)}"


def limit_rows(limits: MachineLimits) -> list[tuple[str, ...]]:
    """Every figure in the columns of LIMIT_TITLES; programs without one say why."""
    rows: list[tuple[str, ...]] = []
    for one in limits.measured:
        for number, reading in enumerate(one.readings):
            at = " ".join(f"{name}={level}" for name, level in reading.at.items())
            title = clean_text(one.program) if number == 0 else ""
            rows.append((title, clean_text(at), *_figures(one, reading.values)))
    rows += [
        (clean_text(lack.program), clean_text(lack.reason), MISSING, "", "", "")
        for lack in limits.lacks
    ]
    return rows


def render_quantity(value: float, unit: str) -> str:
    """A figure with a unit that suits its size: `41.3 GB/s`, `96.2 ns`."""
    for known, scales in _SCALES:
        if unit == known and value > 0:
            scale, word = next((pair for pair in scales if value >= pair[0]), scales[-1])
            return f"{value / scale:.3g} {word}"
    return f"{value:.4g} {clean_text(unit)}".strip()


_BEST = {"s": min, "bytes/s": max, "FLOP/s": max, "1/s": max}
"""Which end of the samples is the better, by unit; others have none."""


def _figures(one: Measured, values: Sequence[float]) -> tuple[str, str, str, str]:
    if not values:
        return MISSING, MISSING, "", "0"
    middle = statistics.median(values)
    best = render_quantity(_BEST[one.unit](values), one.unit) if one.unit in _BEST else MISSING
    spread = MISSING
    if len(values) > 1 and middle:
        spread = f"± {(max(values) - min(values)) / 2 / abs(middle):.0%}"
    return best, render_quantity(middle, one.unit), spread, str(len(values))
