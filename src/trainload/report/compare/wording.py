"""Words and rows that the terminal, Markdown and the page of a comparison share; plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainload.analyse.compare import NOT_EXPLAINED, Comparison, LayerDifference, MetricDifference
from trainload.report.wording import clean_text, render_figure, render_name
from trainload.units import MISSING, render_percent, render_seconds

METRIC_TITLES = ("metric", "A", "B", "B − A", "%", "interval of the difference", "n", "verdict")
LAYER_TITLES = ("layer", "phase", "A", "B", "B − A", "of its own", "verdict", "operation")
FACT_TITLES = ("what", "A", "B")
UNDECIDED = "~"
_ROUNDING_S = 1e-12
"""Seconds that come from adding floats, not from a clock."""


def headline(found: Comparison) -> str:
    """The answer in one sentence."""
    step = found.metrics[0]
    if step.difference is None:
        return f"step time: {step.note}"
    names = {"a": step.a, "b": step.b}
    times = " → ".join(render_figure(step.name, value) for value in names.values())
    if step.verdict == "inconclusive":
        return f"step time {times}: inconclusive {_because(step)}"
    if step.verdict == "same":
        return f"step time {times}: the same within {render_percent(found.margin)}"
    size = _percent(abs(step.percent or 0))
    return f"step time {times}: B is {step.verdict} by {size} {_range(step)}"


def counts_line(found: Comparison) -> str:
    """How many metrics went which way."""
    told = [f"{count} {name}" for name, count in found.counts().items() if count]
    return "metrics: " + ", ".join(told)


def metric_rows(found: Comparison, *, every: bool = False) -> list[tuple[str, ...]]:
    """A row for each metric, those that differ and the step time alone unless `every`."""
    shown = [m for at, m in enumerate(found.metrics) if every or at == 0 or is_decided(m)]
    return [_metric_row(metric) for metric in shown]


def is_decided(metric: MetricDifference) -> bool:
    """Whether the sides surely differ in it."""
    return metric.verdict not in ("same", "inconclusive")


def _metric_row(metric: MetricDifference) -> tuple[str, ...]:
    return (
        render_name(metric.name),
        render_figure(metric.name, metric.a),
        render_figure(metric.name, metric.b),
        signed(metric.name, metric.difference),
        MISSING if metric.percent is None else f"{signed_number(metric.percent)} %",
        interval(metric.name, metric.low, metric.high),
        f"{metric.runs_a} + {metric.runs_b}",
        verdict_word(metric.verdict),
    )


def verdict_word(verdict: str) -> str:
    """The verdict, `~` before one that is none."""
    return f"{UNDECIDED} {verdict}" if verdict == "inconclusive" else verdict


def signed(name: str, value: float | None) -> str:
    """A difference with its sign."""
    if value is None:
        return MISSING
    small = name == "step_s" and abs(value) < _ROUNDING_S
    text = render_figure(name, 0.0 if small else abs(value))
    return text if value == 0 or small else f"{'+' if value > 0 else '−'}{text}"


def signed_number(value: float) -> str:
    """One digit after the point, with a sign that is no hyphen."""
    return f"{value:+.1f}".replace("-", "−")


def interval(name: str, low: float | None, high: float | None) -> str:
    """Bounds of a difference; `~` where none are known."""
    if low is None or high is None:
        return UNDECIDED
    return f"{signed(name, low)} … {signed(name, high)}"


def layer_rows(found: Comparison, most: int | None = None) -> list[tuple[str, ...]]:
    """The largest parts of the difference, then the rest of them in one row, then what is open."""
    *parts, rest = found.layers or (None,)
    if rest is None:
        return []
    shown = parts if most is None else [part for part in parts if part][:most]
    rows = [_layer_row(part) for part in shown if part]
    hidden = [part for part in parts[len(shown) :] if part]
    if hidden:
        rows.append(_sum_row(f"{len(hidden)} smaller parts", hidden))
    rows.append(_layer_row(rest))
    total_s = (found.metrics[0].a or 0.0, found.metrics[0].b or 0.0)
    change = signed("step_s", found.metrics[0].difference)
    rows.append(("step", "", *map(render_seconds, total_s), change, "", "", ""))
    return rows


def _layer_row(part: LayerDifference) -> tuple[str, ...]:
    verdict = part.change or ("" if part.path == NOT_EXPLAINED else verdict_word(part.verdict))
    operation = ""
    if part.operation is not None:
        operation = f"{clean_text(part.operation)} {signed('step_s', part.operation_s)}"
    return (
        clean_text(part.path),
        part.phase or "",
        render_seconds(part.a_s),
        render_seconds(part.b_s),
        signed("step_s", part.difference_s),
        "" if part.path == NOT_EXPLAINED else _own(part),
        verdict,
        operation,
    )


def _own(part: LayerDifference) -> str:
    """The change beyond what all parts share, with its interval."""
    if part.own_s is None or part.own_low_s is None:
        return UNDECIDED
    bounds = interval("step_s", part.own_low_s, part.own_high_s)
    return f"{signed('step_s', part.own_s)} ({bounds})"


def shared_line(found: Comparison) -> str:
    """What all parts have in common, and what the columns mean."""
    if found.shared_fraction is None:
        return ""
    change = signed_number(100 * found.shared_fraction)
    return (
        f"The middle part changed by {change} %, as clocks and other load change all alike; "
        "`of its own` is what a part changed beyond that."
    )


def _sum_row(name: str, parts: Sequence[LayerDifference]) -> tuple[str, ...]:
    a_s, b_s = sum(part.a_s for part in parts), sum(part.b_s for part in parts)
    change = signed("step_s", sum(part.difference_s for part in parts))
    return (name, "", render_seconds(a_s), render_seconds(b_s), change, "", "", "")


def fact_tables(found: Comparison) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Title and rows of configuration and environment; how many are equal stands in the title."""
    for name, facts in (("configuration", found.configuration), ("environment", found.environment)):
        rows: list[tuple[str, ...]] = [
            (clean_text(one.name), clean_text(one.a), clean_text(one.b)) for one in facts.differing
        ]
        yield f"{name}: {len(rows)} differ, {facts.equal} are equal", rows


def sides_line(found: Comparison) -> str:
    """Which side is which."""
    cells = f", {found.cells} cells each" if found.cells > 1 else ""
    return (
        f"A {clean_text(found.a)} ({found.runs_a} runs), "
        f"B {clean_text(found.b)} ({found.runs_b} runs){cells}"
    )


def rule_line(found: Comparison) -> str:
    """The rule behind verdicts and intervals."""
    step = found.metrics[0]
    source = f"{step.note[:1].upper()}{step.note[1:]}. " if step.note else ""
    return (
        f"{source}Intervals hold together at {render_percent(found.level, 0)}; `same` within "
        f"{render_percent(found.margin)} of A; `{UNDECIDED}` is undecided."
    )


def _because(step: MetricDifference) -> str:
    if step.note and step.low is None:
        return f"({step.note})"
    return _range(step)


def _range(step: MetricDifference) -> str:
    if step.low is None or step.high is None or not step.a:
        return ""
    low, high = (signed_number(100 * bound / step.a) for bound in (step.low, step.high))
    return f"({low} … {high} %, n {step.runs_a} + {step.runs_b})"


def _percent(value: float) -> str:
    return f"{value:.1f} %"
