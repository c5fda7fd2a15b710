"""Bounds on a step's memory and time, from its counts and a device's figures.

A bound is no prediction: what memory must hold at least, and how fast a step could be at most.
"""

from dataclasses import dataclass
from typing import Literal

from trainload.estimate.counts.step import LayerEstimate, StepEstimate
from trainload.hardware.catalogue import Device
from trainload_worker.protocol.training import HALVES

MemoryVerdict = Literal["does not fit", "not known"]

NOT_IN_THE_BOUND = (
    "gradients of activations and other temporaries",
    "workspaces of convolutions and products",
    "the allocator's rounding and fragments",
    "the context of the device and the process itself",
)


@dataclass(frozen=True, kw_only=True)
class MemoryBoundEstimate:
    """The least memory a step needs; temporaries, workspaces and the context come on top."""

    bound_bytes: int
    """What must exist at one moment; below the sum of the parts where gradients replace
    activations."""
    weight_bytes: int
    buffer_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    kept_bytes: int
    weight_copy_bytes: int
    capacity_bytes: int | None
    """The device's memory; None without a device, or where its catalogue entry states none."""

    @property
    def sum_bytes(self) -> int:
        """All parts added up, as if all existed at once."""
        return (
            self.weight_bytes
            + self.buffer_bytes
            + self.gradient_bytes
            + self.optimizer_bytes
            + self.kept_bytes
            + self.weight_copy_bytes
        )

    @property
    def verdict(self) -> MemoryVerdict:
        """A lower bound can show that a step does not fit, never that it does."""
        if self.capacity_bytes is not None and self.bound_bytes > self.capacity_bytes:
            return "does not fit"
        return "not known"


@dataclass(frozen=True, kw_only=True)
class TimeBoundEstimate:
    """How fast a step could be on a device: the roofline of Williams, Waterman, Patterson 2009.

    Each layer takes the longer of its FLOPs at the device's peak and its bytes at the device's
    bandwidth. Kernels rarely reach either; caches, fused kernels and algorithms with fewer
    operations (Winograd) can pass them.
    """

    step_s: float | None
    forward_s: float | None
    backward_s: float | None
    update_s: float | None
    compute_s: float | None
    """FLOPs of the step at the peak alone."""
    peak: str | None
    """The name of the peak that was used."""
    missing: str | None
    """Why there are no times; None where there are."""


def estimate_memory_bound(step: StepEstimate, device: Device | None = None) -> MemoryBoundEstimate:
    """The least memory this step needs, in bytes, beside what the device has."""
    memory = device.value("memory_bytes") if device is not None else None
    return MemoryBoundEstimate(
        bound_bytes=step.fullest_bytes,
        weight_bytes=step.total("weight_bytes"),
        buffer_bytes=step.total("buffer_bytes"),
        gradient_bytes=step.total("gradient_bytes"),
        optimizer_bytes=step.total("optimizer_bytes"),
        kept_bytes=step.total("kept_bytes"),
        weight_copy_bytes=step.total("weight_copy_bytes"),
        capacity_bytes=None if memory is None else round(memory),
    )


def estimate_time_bound(step: StepEstimate, device: Device) -> TimeBoundEstimate:
    """The roofline of this step in seconds; missing where the device's entry lacks a figure."""
    peak = _peak_name(step, device)
    bandwidth = device.value("bandwidth_bytes_per_s")
    if peak is None or bandwidth is None:
        lacking = "memory bandwidth" if peak is not None else f"peak in {step.precision}"
        return TimeBoundEstimate(
            step_s=None,
            forward_s=None,
            backward_s=None,
            update_s=None,
            compute_s=None,
            peak=peak,
            missing=f"the entry of {device.name} states no {lacking}",
        )
    speed = device.value(peak)
    assert speed is not None
    forward_s = sum(layer_forward_s(layer, speed, bandwidth) for layer in step.layers)
    backward_s = sum(layer_backward_s(layer, speed, bandwidth) for layer in step.layers)
    update_s = step.total("update_moved_bytes") / bandwidth
    return TimeBoundEstimate(
        step_s=forward_s + backward_s + update_s,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        compute_s=step.total("flop") / speed,
        peak=peak,
        missing=None,
    )


def layer_forward_s(layer: LayerEstimate, flop_per_s: float, bytes_per_s: float) -> float:
    """Seconds of one layer's forward pass by the roofline."""
    return max(layer.forward_flop / flop_per_s, layer.forward_moved_bytes / bytes_per_s)


def layer_backward_s(layer: LayerEstimate, flop_per_s: float, bytes_per_s: float) -> float:
    """Seconds of one layer's backward pass by the roofline."""
    return max(layer.backward_flop / flop_per_s, layer.backward_moved_bytes / bytes_per_s)


def _peak_name(step: StepEstimate, device: Device) -> str | None:
    """The fastest unit that may compute in this precision; None where no figure is stated."""
    if step.precision in HALVES:
        names = [f"{step.precision}_flop_per_s"]
    else:
        # torch lets convolutions use TF32 where the device has it, and other products on request.
        names = ["float32_flop_per_s", "tf32_flop_per_s"]
    stated = {name: device.value(name) for name in names}
    known = {name: value for name, value in stated.items() if value is not None}
    return max(known, key=lambda name: known[name]) if known else None
