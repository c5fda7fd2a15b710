"""The words of the attribution: names of parts, advice, the cost of tracing, how it was obtained.

Turns values of `analyse.attribution` into text; decides nothing about them.
"""

from collections.abc import Iterable, Mapping

from trainload.analyse.attribution.advice import FUSED
from trainload.analyse.attribution.types import (
    Advice,
    EnergyShare,
    HostSampling,
    LayerNode,
    RankLayers,
    RunLayers,
    WindowCost,
)
from trainload.analyse.utilisation import Utilisation
from trainload.kept_memory import KEEPING_WORDS
from trainload.report.wording import clean_text, render_energy
from trainload.units import MISSING, render_flop, render_percent, render_seconds

LEAST_WAITED_FRACTION = 0.02
"""Of the sampled time without a core that is worth a word."""
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
    "python": "Python between torch's calls",
    "remainder": "remainder, unexplained",
}
"""Parts of a step in the order in which they are shown; the position chooses the colour."""

_ADVICE: Mapping[str, str] = {
    "contention": "others use this machine{why}: train when they do not, or on cores of your own",
    "cpu_quota": "the control group's CPU quota holds the run back for {share} of the step: raise "
    "the quota, or use fewer threads and workers",
    "throttling": "{subject} ran slower than asked{why}: see to its cooling and its power supply",
    "swapping": "the machine swaps{why}: use less memory, or close what else holds it",
    "input_wait": "input wait{of} is {share} of the step{why}: let loader workers read ahead "
    "(num_workers, prefetch_factor{already}) or prepare the data once, before training",
    "input_workers": "input wait{of} is {share} of the step{why}: cheaper decoding, "
    "persistent_workers=True or another number of workers, not above the free cores",
    "host_bound": "the device{of} stands idle for {share} of the step while the host prepares its "
    "work{why}: larger batches{compiling} leave less to prepare",
    "synchronising": "waiting for the device{of} is {share} of the step: keep .item(), .cpu() and "
    "printing of tensors out of the step",
    "copies": "copies{of} are {share} of the step: let the loader pin its memory "
    "(pin_memory=True) and copy with non_blocking=True if not already, keep tensors on the device",
    "communication": "communication{of} costs {share} of the step: accumulate gradients under "
    "no_sync(), compress them or try larger buckets (bucket_cap_mb)",
    "straggler": "the other processes wait {share} of the step for {subject}: look at its input, "
    "its clocks and what else runs beside it",
    "update_unfused": "the update{by} is {share} of the step{why}: {fused}",
    "python": "for {share} of the step{of} the script does something else than call torch{why}: "
    "logging, saving, Python of its own; do it every so many steps or outside the loop",
    "script_operations": "operations of the script outside model, loss and optimizer{of} are "
    "{share} of the step: do them on all tensors at once (as clip_grad_norm_ does), or more seldom",
    "gradientless": "forward passes without gradients{of} are {share} of the step: if that is "
    "validation, do it less often; a frozen model's outputs can be kept",
    "precision": "{precise} of the step{of}: {lower}",
    "page_faults": "the system takes {share} of the run's processor time to give it memory that it "
    "gave back before{why}: " + KEEPING_WORDS + " in the environment have it kept, as jemalloc and "
    "tcmalloc do",
    "few_threads": "operations that more threads would shorten are {share} of the step ({evidence})"
    ": let torch have more (OMP_NUM_THREADS, torch.set_num_threads)",
    "recompilation": "compiling again is {share} of the training{why}: keep shapes and Python "
    "values that compiled code reads the same, or have them vary (dynamic=True, "
    "torch._dynamo.mark_dynamic, tensors in place of numbers)",
    "memory_short": "{evidence} is {share} full{holds}: checkpoint or shard what holds the most, "
    "use smaller batches or a lower precision",
}
_ON_CPU: Mapping[str, str] = {
    "host_bound": "the way to the operations{of}, Python and dispatch, takes {share} of the "
    "step{why}: larger batches, fewer and larger operations{compiling} leave less of it",
    "copies": "copying tensors{of} is {share} of the step: leave out .clone(), .contiguous() and "
    "changes of type or layout that are made in every step",
}


def render_advice(advice: Advice, *, device: str = "cuda") -> str:
    """One thing to do next as a sentence with its figure and gain, without a full stop."""
    on_cpu = device.startswith("cpu")
    words = (_ON_CPU if on_cpu else {}).get(advice.topic) or _ADVICE.get(advice.topic)
    share = render_percent(advice.fraction)
    subject = clean_text(advice.subject) if advice.subject is not None else ""
    evidence = clean_text(advice.evidence) if advice.evidence is not None else ""
    if advice.topic == "straggler" and not subject.startswith("rank"):
        subject = f"rank {subject}" if subject else "one of them"
    if words is None:
        topic = clean_text(advice.topic).replace("_", " ")
        return f"{topic}{f' of {subject}' if subject else ''} is {share} of the step"
    ranked = subject.startswith("rank ")
    compiled = "compiled" in evidence
    double = "bytes a parameter" in evidence
    sentence = words.format(
        share=share,
        subject=subject or "a device",
        evidence=evidence or "memory",
        why=f" ({evidence})" if evidence else "",
        already="" if evidence else ", if not already",
        of=f" of {subject}" if ranked else "",
        by=f" of {subject}" if ranked else f" by {subject}" if subject else "",
        compiling=_compiling(on_cpu, compiled),
        fused=_fusing(subject, "foreach" in evidence),
        precise=f"the model is float64, and computing is {share}"
        if double
        else f"products in float32 are {share}",
        lower="float32 does for almost every training"
        if double
        else "autocast to bfloat16, or torch.set_float32_matmul_precision('high'), if not already",
        holds=f", most of it by {subject}" if subject and not ranked else "",
    )
    return f"{sentence}{_render_gain(advice)}"


def _compiling(on_cpu: bool, compiled: bool) -> str:
    if compiled:
        return "" if on_cpu else ' or CUDA graphs (mode="reduce-overhead")'
    return " or torch.compile" if on_cpu else ", torch.compile or CUDA graphs"


def can_fuse(optimizer: str, foreach: bool) -> bool:
    """Whether an optimizer may have `fused=True`: its class has, or it is not told which it is."""
    return optimizer in FUSED or foreach or not optimizer or optimizer.startswith("rank ")


def _fusing(optimizer: str, foreach: bool) -> str:
    if can_fuse(optimizer, foreach):
        return "fused=True updates all tensors in one operation"
    return "foreach=True, where the optimizer has it, updates all tensors at once"


def _render_gain(advice: Advice) -> str:
    if advice.gain_s is None or advice.gain_low_s is None or advice.gain_high_s is None:
        return ""
    low, high = render_seconds(advice.gain_low_s), render_seconds(advice.gain_high_s)
    return f"; expected gain {render_seconds(advice.gain_s)} a step ({low} … {high})"


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


def render_utilisation(used: Utilisation) -> str:
    """The share of the peak, the peak, and the operations of a step, in one line.

    And the share of what such a machine was measured to reach, where that is kept.
    """
    done = f"{render_flop(used.flop)} a step, {render_flop(used.flop_per_s)}/s"
    reached = used.reached
    measured = (
        None
        if reached is None
        else f"achieved {render_flop(used.flop_per_s)}/s of the measured "
        f"{render_flop(reached.flop_per_s)}/s ({render_percent(reached.fraction)}; "
        f"{clean_text(reached.name)}, detect --measure of {clean_text(reached.taken_at[:10])})"
    )
    if used.fraction is None or used.peak_flop_per_s is None:
        return f"{done}; {measured or 'no peak is known for this device and number type'}"
    by_datasheet = (
        f"{render_percent(used.fraction)} of {render_flop(used.peak_flop_per_s)}/s "
        f"({used.peak_name}): {done}"
    )
    return by_datasheet if measured is None else f"{by_datasheet}; {measured}"


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


def render_sampling(sampling: HostSampling | None) -> str | None:
    """How the host's stacks were sampled and what that cost, in one sentence; None if not tried."""
    if sampling is None:
        return None
    why = "; ".join(clean_text(reason) for reason in sampling.refusals)
    if not sampling.taken or sampling.rate_hz is None:
        return f"The host's stacks were not sampled: {why or 'no step was long enough'}."
    cost = "" if sampling.own_s is None else f", {render_seconds(sampling.own_s)} each"
    every = (
        "" if sampling.period_s is None else f" (a timer every {render_seconds(sampling.period_s)})"
    )
    waited = sampling.waited_fraction
    stopped = (
        f" For {render_percent(waited)} of that time the thread had no core: others' load, which "
        "stands at the lines it was stopped at."
        if waited is not None and waited >= LEAST_WAITED_FRACTION
        else ""
    )
    partly = f" Not in all windows: {why}." if why else ""
    return (
        f"The host by {sampling.taken:,} sampled stacks of the training thread, "
        f"{sampling.rate_hz:,.0f} a second{every}{cost}: one is read between two instructions of "
        f"Python, so that of a call into C the caller's line is known and nothing inside."
        f"{stopped}{partly}"
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
