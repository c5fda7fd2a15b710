"""The words of the attribution: names of parts, advice, the cost of tracing, how it was obtained.

Turns values of `analyse.attribution` into text; decides nothing about them.
"""

from collections.abc import Iterable, Mapping

from trainload.analyse.attribution.types import (
    Advice,
    EnergyShare,
    LayerNode,
    RankLayers,
    RunLayers,
    WindowCost,
)
from trainload.report.wording import clean_text, render_energy
from trainload.units import MISSING, render_percent, render_seconds

PARTS: Mapping[str, str] = {
    "forward": "forward",
    "backward": "backward",
    "update": "update",
    "loss": "loss",
    "input": "input",
    "copy": "copies",
    "communication": "communication",
    "script": "script's own operations",
    "idle: host": "idle: host preparing",
    "idle: input": "idle: waiting for input",
    "idle: synchronise": "idle: synchronising",
    "remainder": "remainder, unexplained",
}
"""Parts of a step in the order in which they are shown; the position chooses the colour."""

_ADVICE: Mapping[str, str] = {
    "input_wait": "input wait{of} is {share} of the step: give the data loader more workers "
    "(num_workers) or move decoding out of the step",
    "host_bound": "the device{of} stands idle for {share} of the step while the host prepares its "
    "work{most}: larger batches, torch.compile or CUDA graphs leave less to prepare",
    "synchronising": "waiting for the device{of} is {share} of the step: keep .item(), .cpu() and "
    "printing of tensors out of the step",
    "copies": "copies{of} are {share} of the step: let the loader pin its memory "
    "(pin_memory=True), copy with non_blocking=True and keep tensors on the device",
    "communication": "communication{of} costs {share} of the step: accumulate gradients under "
    "no_sync(), compress them or try larger buckets (bucket_cap_mb)",
    "straggler": "the other processes wait {share} of the step for {subject}: look at its input, "
    "its clocks and what else runs beside it",
    "dominant_layer": "the layer {subject} alone is {share} of the step: lower precision "
    "or a cheaper layer pays most there",
    "update_heavy": "the optimizer's update{of} is {share} of the step: use a fused optimizer "
    "(fused=True) or update less often by accumulating gradients",
    "remainder": "{share} of the step{of} is explained by nothing: look at what the script does "
    "between its torch operations",
    "memory_heavy": "the layer {subject} holds {share} of the layers' memory: shrink or shard it, "
    "or checkpoint it where activations weigh most",
}

_HOST_BOUND_CPU = (
    "Python between the operations{of} takes {share} of the step{most}: larger batches, fewer and "
    "larger operations or torch.compile leave less of it"
)


def render_advice(advice: Advice, *, device: str = "cuda") -> str:
    """One thing to do next as a sentence with its figure, without a full stop."""
    words = _ADVICE.get(advice.topic)
    share = render_percent(advice.fraction)
    subject = clean_text(advice.subject) if advice.subject is not None else ""
    if advice.topic == "straggler" and not subject.startswith("rank"):
        subject = f"rank {subject}" if subject else "one of them"
    if words is None:
        topic = clean_text(advice.topic).replace("_", " ")
        return f"{topic}{f' of {subject}' if subject else ''} is {share} of the step"
    if advice.topic == "host_bound" and device.startswith("cpu"):
        words = _HOST_BOUND_CPU
    ranked = subject.startswith("rank ")
    return words.format(
        share=share,
        subject=subject or "one layer",
        of=f" of {subject}" if ranked else "",
        most=f", most of it in {subject}" if subject and not ranked else "",
    )


def render_all_advice(layers: RunLayers) -> list[str]:
    """Every advice of a run, most valuable first."""
    device = layers.ranks[0].device if layers.ranks else "cuda"
    return [render_advice(advice, device=device) for advice in layers.advice]


def render_part(part: str) -> str:
    """A part of the step in words."""
    return PARTS.get(part, clean_text(part))


def ordered_parts(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Parts in their order of showing; unknown ones before the remainder."""
    names = list(PARTS)
    place = {name: at for at, name in enumerate(names)}
    return sorted(parts.items(), key=lambda item: place.get(item[0], len(names) - 1.5))


def render_cost(cost: WindowCost) -> str:
    """Seconds that tracing cost, their share of the training and the budget, where known."""
    windows = f"{cost.windows:,} window{'' if cost.windows == 1 else 's'}"
    if cost.budget is None and cost.fraction is None:
        return f"{windows} of a trace from elsewhere" if cost.windows else "a trace from elsewhere"
    spent = render_seconds(max(cost.cost_s, 0.0))
    if cost.fraction is not None:
        spent += f", {render_percent(max(cost.fraction, 0.0))} of the training"
    budget = ""
    if cost.budget is not None:
        over = cost.fraction is not None and cost.fraction > cost.budget
        budget = f" ({'over its budget of' if over else 'budget'} {render_percent(cost.budget)})"
    return f"{windows} cost {spent}{budget}{_lasting(cost)}"


def _lasting(cost: WindowCost) -> str:
    """What stays after the windows, where the run's own steps can tell."""
    if cost.lasting is None:
        return ""
    low, high = ((end - 1) * 100 for end in (cost.lasting.low, cost.lasting.high))
    told = "slower than" if cost.lasting.shown else "not shown to be slower than"
    return f"; steps after them {told} before ({low:+.1f} … {high:+.1f} %)".replace("-", "−")


def render_head(rank: RankLayers) -> str:
    """Mean traced step, device, explained share and cost of one process in one line.

    It is not the run's step time, which is the median over all of its steps.
    """
    how = "corrected" if rank.corrected else "as traced"
    return (
        f"traced step {render_seconds(rank.step_s)} (mean, {how}) on {clean_text(rank.device)} · "
        f"{render_percent(rank.explained_fraction)} explained · {render_cost(rank.cost)}"
    )


def render_method(rank: RankLayers) -> str:
    """How the times were obtained, in one or two sentences."""
    steps = rank.rows.select("window", "step").unique().height
    source = f"Means over {steps:,} traced step{'' if steps == 1 else 's'}"
    if not rank.corrected:
        return f"{source}, as traced: no untraced step is known to correct them by."
    work = "operations" if rank.device.startswith("cpu") else "kernels"
    return (
        f"{source}, corrected from {render_seconds(rank.traced_step_s)} as traced to "
        f"{render_seconds(rank.step_s)} of an untraced step: the gaps between {work} are scaled, "
        f"the {work} themselves only where they do not fit."
    )


def layer_name(node: LayerNode, *, rooted: bool) -> str:
    """A layer's full name; the model's own label stands first where there are several."""
    if not node.layer:
        return clean_text(node.root)
    return clean_text(f"{node.root} · {node.layer}" if rooted else node.layer)


def has_several_roots(nodes: Iterable[LayerNode]) -> bool:
    """Whether the layers belong to more than one model."""
    return len({node.root for node in nodes}) > 1


def render_folded(count: int) -> str:
    """A line that stands for several layers; its share has a column of its own."""
    return f"… {count:,} more layer{'' if count == 1 else 's'}"


def render_joules(energy: EnergyShare | None) -> str:
    """Joules of one step with the range they may lie in; a dash when missing."""
    if energy is None:
        return MISSING
    return f"{_joules(energy.energy_j)} ({_joules(energy.low_j)} … {_joules(energy.high_j)})"


def _joules(energy_j: float) -> str:
    if 0 < abs(energy_j) < 1:
        return f"{energy_j * 1e3:.3g} mJ"
    return render_energy(energy_j, watt_hours=False)


def share_of(time_s: float, rank: RankLayers) -> float | None:
    """A time's share of the step; None where the step took no time."""
    return time_s / rank.step_s if rank.step_s > 0 else None


def straggler_of(layers: RunLayers) -> str | None:
    """The rank that the others wait for, as advice names it; None without one."""
    for advice in layers.advice:
        if advice.topic == "straggler" and advice.subject is not None:
            return clean_text(advice.subject).removeprefix("rank").strip()
    return None
