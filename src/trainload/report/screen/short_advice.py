"""Advice in one short sentence, its gain as a share of the step first, for the first screen.

The whole sentence with its evidence is `report.layers.wording`'s; decides nothing.
"""

from collections.abc import Mapping

from trainload.analyse.attribution.types import Advice
from trainload.kept_memory import KEEPING_WORDS
from trainload.report.layers.wording import can_fuse, render_advice
from trainload.report.wording import clean_text
from trainload.units import render_percent

_SHORT: Mapping[str, str] = {
    "contention": "other programs use this machine: train when it is free, or on cores of your own",
    "cpu_quota": "the CPU limit of the container holds the run back: raise that limit, or use "
    "fewer threads and workers",
    "throttling": "{subject} ran slower than asked: see to cooling and power supply",
    "swapping": "the machine swaps: use less memory, or close what else holds it",
    "input_wait": "{share} of the step waits for data{of}: let loader workers read ahead "
    "(num_workers), or prepare the data once",
    "input_workers": "{share} of the step waits for data{of} though workers read ahead: decode "
    "more cheaply, keep the workers, or change their number",
    "host_bound": "the GPU{of} idles for {share} of the step while the host prepares its work: "
    "larger batches{compile} or CUDA graphs",
    "synchronising": "waiting for the GPU{of} is {share} of the step: keep .item(), .cpu() and "
    "printing of tensors out of the step",
    "copies": "copies{of} are {share} of the step: pin_memory=True, non_blocking=True, keep "
    "tensors on the GPU",
    "communication": "exchange between processes is {share} of the step: accumulate under "
    "no_sync(), compress, or larger buckets",
    "straggler": "the others wait {share} of the step for {subject}: look at data, clocks and "
    "neighbours of that process",
    "update_unfused": "the optimizer's update{of} is {share} of the step: {fused} of the optimizer",
    "python": "for {share} of the step{of} the script does something else than call torch: log "
    "and save more seldom",
    "script_operations": "{share} of the step{of} are operations outside model, loss and "
    "optimizer: do them on all tensors at once, or more seldom",
    "gradientless": "forward passes without gradients{of} are {share} of the step: validate less "
    "often, keep a frozen model's outputs",
    "precision": "computing in {precise}{of} is {share} of the step: {lower}",
    "page_faults": "the system spends {share} of the run's processor time on giving it memory "
    "anew: " + KEEPING_WORDS + " before the command",
    "few_threads": "torch computes with fewer threads than there are free cores: OMP_NUM_THREADS "
    "or torch.set_num_threads",
    "recompilation": "compiling again took {share} of the training: keep shapes and values that "
    "the compiled code reads the same, or dynamic=True",
    "memory_short": "memory is {share} full{holds}: smaller batches, lower precision, "
    "checkpoint or shard what holds the most",
}
_SHORT_ON_CPU: Mapping[str, str] = {
    "host_bound": "{share} of the step{of} is Python and dispatch between operations: larger "
    "batches, fewer and larger operations{compile}",
    "copies": "copying tensors{of} is {share} of the step: leave out .clone(), .contiguous() and "
    "changes of type in every step",
}


def render_short_advice(advice: Advice, *, device: str, step_s: float) -> str:
    """The share of the step it saves, what to do, and what speaks for it.

    A topic without short words is told in the whole ones.
    """
    words = (_SHORT_ON_CPU if device.startswith("cpu") else {}).get(advice.topic)
    words = words or _SHORT.get(advice.topic)
    if words is None:
        return render_advice(advice, device=device)
    subject = clean_text(advice.subject) if advice.subject is not None else ""
    evidence = advice.evidence or ""
    ranked = subject.startswith("rank ")
    double = "bytes a parameter" in evidence
    sentence = words.format(
        share=render_percent(advice.fraction, 0),
        subject=subject or "one of them",
        of=f" of {subject}" if ranked else "",
        compile="" if "compiled" in evidence else ", torch.compile",
        fused="fused=True" if can_fuse(subject, "foreach" in evidence) else "foreach=True",
        precise="float64" if double else "float32",
        lower="float32 does for almost every training" if double else "autocast to bfloat16",
        holds=f", most of it by {subject}" if subject and not ranked else "",
    )
    finding, _, act = sentence.partition(": ")
    # What it gains and what to do stand first: the rest may be cut where the screen is full.
    return f"{_gain(advice, step_s)}{act}; {finding}"


def _gain(advice: Advice, step_s: float) -> str:
    """`saves about 29 % of a step (12–39 %): `; empty where no time is gained."""
    step_s = step_s if advice.mean_step_s is None else advice.mean_step_s
    if advice.gain_s is None or step_s <= 0:
        return ""
    about = f"saves about {render_percent(advice.gain_s / step_s, 0)} of a step"
    if advice.gain_low_s is None or advice.gain_high_s is None:
        return f"{about}: "
    low, high = (f"{100 * end / step_s:.0f}" for end in (advice.gain_low_s, advice.gain_high_s))
    return f"{about} ({low}–{high} %): "
