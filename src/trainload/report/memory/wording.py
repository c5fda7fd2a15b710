"""Words about whether a training fits that the page and the terminal share; plain text."""

from __future__ import annotations

from collections.abc import Mapping

from trainload.estimate.counts.answer import StepChoice
from trainload.estimate.memory.answer import MemoryAnswer
from trainload.estimate.memory.fit import MemoryEstimate, Span
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_bytes

NO_LAYER = "(outside all layers)"
SPANS = (
    ("allocated_bytes", "allocated", "tensors and workspaces, at the fullest moment"),
    ("reserved_bytes", "reserved", "what torch's allocator takes from the device"),
    ("device_bytes", "whole device", "and the context of the process"),
    ("needed_bytes", "needed", "with less than this the step runs out"),
)
"""Figures of an estimate: name, title, what it means."""
_GOING = {"forward": "going forward", "backward": "going back", "update": "in the update"}
GIVES_BACK = (
    "fits because torch gives cached memory back when the device is full; steps wait for that"
)


def render_head(title: str, choice: StepChoice | None) -> str:
    """What is trained and how, in one line; `choice` is None for a script."""
    if choice is None:
        return f"{title}: one training step as the script does it"
    rule = choice.optimizer
    name: str = rule.name
    if name == "sgd" and rule.momentum:
        name = f"sgd with momentum {rule.momentum:g}"
    if choice.batch_size is None:
        return f"{title}: one training step of its own batch, {choice.precision}, {name}"
    examples = "example" if choice.batch_size == 1 else "examples"
    how = f"{choice.batch_size:,} {examples}, {choice.precision}, {name}"
    return f"{title}: one training step of {how}"


def render_chance(chance: float | None) -> str:
    """A probability in percent, from "below 0.1 %" to "above 99.9 %"; a dash when missing."""
    if chance is None:
        return MISSING
    if chance < 0.001:
        return "below 0.1 %"
    if chance > 0.999:
        return "above 99.9 %"
    return f"{chance * 100:.2g} %" if chance < 0.995 else f"{chance * 100:.1f} %"


def render_verdict(answer: MemoryAnswer) -> str | None:
    """The first line: whether it fits; None where nothing was traced."""
    if answer.estimate is None and answer.ram is None:
        return None
    reason = render_reason(answer)
    if answer.device is None or answer.estimate is None:
        return reason
    return f"{answer.estimate.verdict}: {reason}"


def render_reason(answer: MemoryAnswer) -> str:
    """What a verdict rests on, in one line; empty where nothing was traced."""
    estimate, ram = answer.estimate, answer.ram
    if ram is not None:
        return (
            f"needs {render_bytes(ram.growth_bytes.value_bytes)} of RAM beside what torch takes "
            f"before a model is built; 19 in 20 within {render_between(ram.growth_bytes)}"
        )
    if estimate is None:
        return ""
    needed = render_bytes(estimate.needed_bytes.value_bytes)
    if estimate.at_most:
        needed = f"at most {needed}"
    if answer.device is None:
        return f"needs {needed} of GPU memory; to see whether that fits, add --device h200"
    if estimate.capacity_bytes is None:
        return f"needs {needed}; the entry of {answer.device.name} states no memory"
    if estimate.at_most and estimate.running_out is None:
        return (
            f"needs {needed}, {answer.device.title} offers "
            f"{render_bytes(estimate.capacity_bytes)}; sizes in the step depend on its numbers, "
            "and less may do"
        )
    chance = render_chance(estimate.running_out)
    return (
        f"needs {needed} of the {render_bytes(estimate.capacity_bytes)} that "
        f"{answer.device.title} offers; chance of running out: {chance}"
    )


def render_peak_place(estimate: MemoryEstimate) -> str:
    """Where the fullest moment is: layer and operation."""
    peak = estimate.peak
    if peak.operation is None:
        return "before the first operation"
    layer = f" of layer {clean_text(peak.layer)}" if peak.layer else ""
    where = _GOING.get(peak.phase or "")
    return f"{render_operation(peak.operation)}{layer}" + (f", {where}" if where else "")


def render_between(span: Span) -> str:
    """Low and high end of a figure: `1.2 GiB … 1.4 GiB`."""
    return f"{render_bytes(span.low_bytes)} … {render_bytes(span.high_bytes)}"


def render_operation(name: str) -> str:
    """An operation's name without torch's `aten.` and `.default`."""
    return name.removeprefix("aten.").removesuffix(".default")


def render_part(name: str) -> str:
    """Name of a category of memory at the peak, in words."""
    return "optimizer state" if name == "optimizer" else name


def group_layers(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sums over the first parts of the layers' names, largest first; empty where none has two."""
    if not any("." in name for name in sizes):
        return {}
    groups: dict[str, int] = {}
    for name, size in sizes.items():
        group = name.partition(".")[0]
        groups[group] = groups.get(group, 0) + size
    return dict(sorted(groups.items(), key=lambda item: -item[1]))


def render_gain(gain_bytes: int | None) -> str:
    """Bytes saved, in words; "more" where an alternative needs more, a dash when missing."""
    if gain_bytes is None:
        return MISSING
    if gain_bytes == 0:
        return "nothing"
    return render_bytes(gain_bytes) if gain_bytes > 0 else f"{render_bytes(-gain_bytes)} more"


def all_notes(answer: MemoryAnswer) -> tuple[str, ...]:
    """What is taken for granted, and what a verdict rests on."""
    estimate = answer.estimate
    if estimate is None or estimate.verdict != "fits" or estimate.capacity_bytes is None:
        return answer.notes
    if estimate.device_bytes.value_bytes <= estimate.capacity_bytes:
        return answer.notes
    return (GIVES_BACK, *answer.notes)
