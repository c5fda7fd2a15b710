"""What stands on the first screen of a run, as values; how it is laid out is `layout`'s.

Chooses and words; every figure comes from `analyse`, `predict.money` or the record.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RankLayers, RunLayers
from trainload.analyse.findings import told_without_steps
from trainload.record import Manifest, OverheadMeasurement
from trainload.report.layers.rows import by_exclusive_time
from trainload.report.layers.wording import has_several_roots, layer_name, share_of
from trainload.report.run.headline import loss_row, render_rate
from trainload.report.run.rows import (
    given_rows,
    render_source_energy,
    title_of,
)
from trainload.report.screen.bar import Share, run_shares, step_shares
from trainload.report.screen.energy import source_words
from trainload.report.screen.short_advice import render_short_advice
from trainload.report.wording import clean_text, render_outcome
from trainload.units import MISSING, render_bytes, render_percent, render_seconds, render_value

MORE = "more: --loads --layers --energy --all"
MOST_LAYERS = 3
MOST_ADVICE = 3
MOST_GIVEN = 10
"""Figures that the source of an imported run states; of more the first."""
MOST_SOURCES = 2
"""Sources of energy; a board has one for each rail."""

Row = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """One layer: its share of the step, its own time, full path and class."""

    share: str
    time: str
    path: str
    kind: str


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Everything on a run's first screen, most important first."""

    outcome: str
    good: bool
    """Whether the outcome is as wished; a run that goes on is neither good nor bad: True."""
    title: str
    run_id: str
    reason: str | None
    """Why it ended as it did; None for one that completed."""
    warnings: tuple[str, ...]
    costs: tuple[Row, ...]
    bar_title: str | None
    shares: tuple[Share, ...]
    hint: str | None
    """How to see inside a step, or how to make it fit; None where neither is wanting."""
    layers_title: str | None
    layers: tuple[LayerCost, ...]
    advice: tuple[str, ...]
    more: str | None


def first_screen(
    summary: RunSummary,
    manifest: Manifest,
    layers: RunLayers | None = None,
    *,
    money: str | None = None,
    rank: int = 0,
    more: str | None = MORE,
) -> Screen:
    """The first screen of a run; `money` is what it cost in words, None where that is not known."""
    shown = _rank_shown(layers, rank)
    imported = manifest.imported is not None
    outcome = render_outcome(summary.outcome)
    if imported:
        outcome = "imported" if summary.outcome == "completed" else f"imported, {outcome}"
    no_steps = told_without_steps(summary.warnings) is not None
    bar_title, shares = _bar(summary, shown)
    return Screen(
        outcome=f"{outcome}, but no step was seen" if no_steps else outcome,
        good=summary.outcome in ("completed", None) and not no_steps,
        title=_title(manifest),
        run_id=clean_text(summary.run_id),
        reason=_reason(summary),
        warnings=tuple(_warnings(summary)),
        costs=tuple(_costs(summary, manifest, money)),
        bar_title=bar_title,
        shares=shares,
        hint=_hint(summary, manifest, shown),
        layers_title=_layers_title(layers, shown),
        layers=tuple(_layers(shown)),
        advice=_advice(layers, shown),
        more=more,
    )


def _rank_shown(layers: RunLayers | None, rank: int) -> RankLayers | None:
    if layers is None or not layers.ranks:
        return None
    return next((one for one in layers.ranks if one.rank == rank), layers.ranks[0])


def _title(manifest: Manifest) -> str:
    count = manifest.processes or 1
    return title_of(manifest) + (f" · {count} processes" if count > 1 else "")


def _reason(summary: RunSummary) -> str | None:
    if not summary.reason or summary.outcome in ("completed", None):
        return None
    return clean_text(summary.reason)


def _warnings(summary: RunSummary) -> Iterator[str]:
    """All but those that the outcome tells already; how to have steps seen is a warning too."""
    for warning in summary.warnings:
        if told_without_steps([warning]):
            yield clean_text(warning.partition(": ")[2])
        elif summary.outcome in ("completed", None) or not warning.startswith("the run ended as"):
            yield clean_text(warning)


def _costs(summary: RunSummary, manifest: Manifest, money: str | None) -> Iterator[Row]:
    if manifest.imported is not None:
        given = given_rows(manifest.imported)
        for name, value, spread in given[:MOST_GIVEN]:
            yield name, value if spread == MISSING else f"{value} {spread}"
        if len(given) > MOST_GIVEN:
            yield "", f"and {len(given) - MOST_GIVEN} more figures of its source: --all"
        if not summary.steps and not summary.samples.total and not summary.epochs:
            return
    if summary.steps or summary.duration_s is not None:
        yield "time", _time(summary)
    if summary.examples_per_s is not None:
        tokens = summary.tokens_per_s
        beside = "" if tokens is None else f", {render_rate(tokens, 'tokens/s')}"
        yield "throughput", f"{render_rate(summary.examples_per_s)}{beside}"
    if memory := _memory(summary, manifest):
        yield "memory", f"at most {memory}"
    if summary.energy or manifest.imported is None:
        yield "energy", _energy(summary)
    if money is not None:
        yield "money", money
    if summary.final is not None:
        yield "quality", _quality(summary)
    elif summary.last_loss is not None:
        yield loss_row(summary, manifest)
    if manifest.imported is None:
        yield "watching it", _watching(manifest.overhead)


def _quality(summary: RunSummary) -> str:
    """Accuracy and loss of the best epoch, else of the last; scores beyond them are in --all."""
    score = summary.best or summary.final
    assert score is not None, "asked for where an epoch has finished"
    which = f"{'best' if summary.best is not None else 'last'} epoch: {score.epoch + 1}"
    accuracy, loss = score.validation.get("accuracy"), score.validation.get("loss")
    told = [] if accuracy is None else [f"{render_percent(accuracy)} accuracy"]
    if loss is not None:
        told.append(f"loss {loss:.4g}")
    if told:
        return f"{', '.join(told)} in validation ({which})"
    if score.train_loss is not None:
        return f"loss {score.train_loss:.4g} in training ({which})"
    return MISSING


def _watching(overhead: OverheadMeasurement | None) -> str:
    """What the measuring cost, in plain words; the whole statement is in --loads."""
    if overhead is None or overhead.verdict not in ("resolved", "not_resolvable"):
        return "its cost was not measured; --loads says why"
    low, high = (_change(end) for end in (overhead.low, overhead.high))
    if overhead.verdict == "resolved":
        return f"{_change(overhead.ratio)} of the time ({low} … {high})"
    return f"no cost shown ({low} … {high} of the time)"


def _change(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")


def _time(summary: RunSummary) -> str:
    whole = f"{render_seconds(summary.duration_s)} in all"
    if not summary.steps:
        return f"{whole}; no step was seen"
    each = summary.step_time.median_s
    step = "" if each is None else f" of {render_seconds(each)}"
    return (
        f"{whole}, {render_seconds(summary.training_s)} of it training: "
        f"{summary.steps:,} step{'' if summary.steps == 1 else 's'}{step}"
    )


def _memory(summary: RunSummary, manifest: Manifest) -> str:
    peaks, told = summary.peaks, []
    gpu_bytes = peaks.gpu_process_bytes or peaks.gpu_reserved_bytes or peaks.gpu_allocated_bytes
    if gpu_bytes is not None:
        resolved = manifest.setting.resolved
        sizes = [a.memory_bytes for a in resolved.accelerators] if resolved is not None else []
        whole = f" of {render_bytes(sizes[0])}" if sizes and sizes[0] else ""
        told.append(f"{render_bytes(gpu_bytes)}{whole} on the GPU")
    if peaks.host_bytes is not None:
        told.append(f"{render_bytes(peaks.host_bytes)} on the host")
    return ", ".join(told)


def _energy(summary: RunSummary) -> str:
    known = [source for source in summary.energy if source.energy_j is not None]
    if not known:
        return "not measured: no meter of it here; see trainload doctor"
    told = [
        f"{render_source_energy(source, summary)} by {source_words(source.source)}"
        + (f" at {render_value('power_w', power_w)}" if (power_w := source.mean_power_w) else "")
        for source in known[:MOST_SOURCES]
    ]
    more = f"; {len(known) - MOST_SOURCES} more: --energy" if len(known) > MOST_SOURCES else ""
    return f"{'; '.join(told)}{more}"


def _bar(summary: RunSummary, rank: RankLayers | None) -> tuple[str | None, tuple[Share, ...]]:
    if rank is not None:
        shares = step_shares(rank)
        title = f"where each step goes ({render_seconds(rank.step_s)} on average)"
    else:
        shares = run_shares(summary)
        title = f"where the {render_seconds(summary.duration_s)} went"
    return (title, shares) if shares else (None, ())


def _hint(summary: RunSummary, manifest: Manifest, rank: RankLayers | None) -> str | None:
    if summary.outcome == "out_of_memory":
        return "which batch size, precision or optimizer would fit: trainload estimate --help"
    if rank is not None or not summary.steps or manifest.imported is not None:
        return None
    if manifest.layers is not None:
        return None  # asked for; a warning says why there are none
    return "to see inside a step, layer by layer, run it with --layers"


def _layers_title(layers: RunLayers | None, rank: RankLayers | None) -> str | None:
    if layers is None or rank is None or not rank.nodes:
        return None
    several = f", rank {rank.rank} of {len(layers.ranks)}" if len(layers.ranks) > 1 else ""
    return f"costliest layers{several}"


def _layers(rank: RankLayers | None) -> Iterator[LayerCost]:
    if rank is None:
        return
    rooted = has_several_roots(rank.nodes)
    for node in by_exclusive_time(rank.nodes)[:MOST_LAYERS]:
        if node.exclusive_s > 0:
            yield LayerCost(
                share=render_percent(share_of(node.exclusive_s, rank)),
                time=render_seconds(node.exclusive_s),
                path=layer_name(node, rooted=rooted),
                kind=clean_text(node.class_name or ""),
            )


def _advice(layers: RunLayers | None, rank: RankLayers | None) -> tuple[str, ...]:
    if layers is None or rank is None:
        return ()
    return tuple(
        render_short_advice(advice, device=rank.device, step_s=rank.step_s)
        for advice in layers.advice[:MOST_ADVICE]
    )
