"""The attribution as rows of plain text, the same for the terminal and for HTML.

Chooses columns by what is known; computes nothing but shares of the step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainload.analyse.attribution.types import LayerMemory, LayerNode, RankLayers, RunLayers
from trainload.report.layers.wording import render_joules, share_of, straggler_of
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_bytes, render_percent, render_seconds

Value = Callable[[LayerNode], float | None]


@dataclass(frozen=True, kw_only=True)
class LayerColumn:
    """One column about layers: its title, the figure to sort by and the figure in words."""

    title: str
    value: Value
    render: Callable[[LayerNode], str]
    extra: bool = False
    """Left out where nothing is known, or where there is little room."""


def layer_columns(rank: RankLayers, *, whole: bool) -> list[LayerColumn]:
    """The columns that have something to say of this rank; with `whole` also the minor ones."""
    chosen = [
        _column("share", lambda node: share_of(node.inclusive_s, rank), render_percent),
        _column("inclusive", lambda node: node.inclusive_s, render_seconds),
        _column("forward", lambda node: node.forward_s, render_seconds),
        _column("backward", lambda node: node.backward_s, render_seconds),
        _column("update", lambda node: node.update_s, render_seconds),
        _column("idle", lambda node: node.idle_s, render_seconds),
    ]
    if whole:
        chosen.append(_column("calls", lambda node: node.calls, _render_count))
    chosen += [
        _memory_column("parameters", lambda m: m.parameters, _render_count),
        _memory_column("activations", lambda m: m.activation_bytes, render_bytes),
        _memory_column("peak", lambda m: m.peak_bytes, render_bytes),
    ]
    if whole:
        chosen += [
            _memory_column("weights", lambda m: m.parameter_bytes, render_bytes),
            _memory_column("gradients", lambda m: m.gradient_bytes, render_bytes),
            _memory_column("optimizer state", lambda m: m.optimizer_bytes, render_bytes),
        ]
    chosen.append(
        LayerColumn(
            title="energy",
            value=lambda node: node.energy.energy_j if node.energy is not None else None,
            render=lambda node: render_joules(node.energy),
            extra=True,
        )
    )
    return [c for c in chosen if not c.extra or any(c.value(n) is not None for n in rank.nodes)]


RANK_TITLES = (
    "rank", "device", "step", "own work", "communication", "hidden", "input", "explained",
    "verdict",
)  # fmt: skip


def rank_rows(layers: RunLayers) -> list[tuple[str, ...]]:
    """The processes beside each other; the straggler is named, else who has most work."""
    straggler = straggler_of(layers)
    slowest = max((_own_work_s(rank) for rank in layers.ranks), default=0.0)
    return [_rank_row(rank, straggler, slowest, len(layers.ranks)) for rank in layers.ranks]


def _rank_row(
    rank: RankLayers, straggler: str | None, slowest_s: float, count: int
) -> tuple[str, ...]:
    communication_s = rank.parts.get("communication", 0.0)
    input_s = rank.parts.get("input", 0.0) + rank.parts.get("idle: input", 0.0)
    verdict = ""
    if straggler == str(rank.rank):
        verdict = "straggler"
    elif straggler is None and count > 1 and _own_work_s(rank) == slowest_s:
        verdict = "slowest"
    return (
        str(rank.rank),
        clean_text(rank.device),
        render_seconds(rank.step_s),
        render_seconds(_own_work_s(rank)),
        _with_share(communication_s, rank),
        render_seconds(rank.hidden_communication_s),
        _with_share(input_s, rank),
        render_percent(rank.explained_fraction),
        verdict,
    )


def _own_work_s(rank: RankLayers) -> float:
    """Seconds of a step without communication, in which ranks wait for each other."""
    return rank.step_s - rank.parts.get("communication", 0.0)


def _with_share(time_s: float, rank: RankLayers) -> str:
    return f"{render_seconds(time_s)} ({render_percent(share_of(time_s, rank))})"


def by_exclusive_time(nodes: Sequence[LayerNode]) -> list[LayerNode]:
    """The layers whose own time is longest first."""
    return sorted(nodes, key=lambda node: -node.exclusive_s)


def _column(title: str, value: Value, render: Callable[[float | None], str]) -> LayerColumn:
    return LayerColumn(title=title, value=value, render=lambda node: render(value(node)))


def _memory_column(
    title: str,
    value: Callable[[LayerMemory], float | None],
    render: Callable[[float | None], str],
) -> LayerColumn:
    def read(node: LayerNode) -> float | None:
        return value(node.memory) if node.memory is not None else None

    return LayerColumn(title=title, value=read, render=lambda node: render(read(node)), extra=True)


def _render_count(value: float | None) -> str:
    if value is None:
        return MISSING
    for unit, worth in (("G", 1e9), ("M", 1e6)):
        if value >= worth:
            return f"{value / worth:.3g} {unit}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
