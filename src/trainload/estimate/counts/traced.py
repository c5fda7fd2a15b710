"""Counts of a step and its roofline from an op trace, for code that has no layer graph.

Computed from the events of a trace; traces nothing and reads no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from trainload.estimate.counts.bounds import TimeBoundEstimate
from trainload.estimate.counts.operations import (
    computing_type,
    operation_flop,
    operation_moved_bytes,
)
from trainload.estimate.memory.op_trace import Event, Operation
from trainload.hardware.catalogue import Device

Phase = Literal["forward", "backward", "update"]
_PEAKS: Mapping[str, tuple[str, ...]] = {
    "bfloat16": ("bf16_flop_per_s",),
    "float16": ("fp16_flop_per_s",),
}
# torch lets convolutions use TF32 where the device has it, and other products on request.
_WIDE_PEAKS = ("float32_flop_per_s", "tf32_flop_per_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationCount:
    """What one operation of the step costs."""

    phase: Phase
    computed_in: str
    flop: int
    moved_bytes: int


@dataclass(frozen=True, kw_only=True)
class TracedStep:
    """What one training step costs, operation by operation; of the trace's last step."""

    parameters: int
    operations: tuple[OperationCount, ...]

    def flop(self, phase: Phase | None = None) -> int:
        """FLOPs of products, convolutions and attention; of one phase where it is named."""
        return sum(one.flop for one in self.operations if phase in (None, one.phase))

    def moved_bytes(self, phase: Phase | None = None) -> int:
        """Bytes that operations read and write, each operand once an operation."""
        return sum(one.moved_bytes for one in self.operations if phase in (None, one.phase))

    @property
    def intensity_flop_per_byte(self) -> float | None:
        """FLOPs for each byte moved; None where nothing moves."""
        moved = self.moved_bytes()
        return self.flop() / moved if moved else None


def count_trace(events: Iterable[Event], parameters: int) -> TracedStep:
    """Counts of the trace's last step; what belongs to no phase counts to the forward pass."""
    operations = [event for event in events if isinstance(event, Operation)]
    last = max((operation.step for operation in operations), default=0)
    return TracedStep(
        parameters=parameters,
        operations=tuple(
            OperationCount(
                phase="forward" if operation.phase == "other" else operation.phase,
                computed_in=computing_type(operation),
                flop=operation_flop(operation),
                moved_bytes=operation_moved_bytes(operation),
            )
            for operation in operations
            if operation.step == last
        ),
    )


def estimate_traced_time(step: TracedStep, device: Device) -> TimeBoundEstimate:
    """The roofline of the step: each operation takes its FLOPs or its bytes, whichever is longer.

    FLOPs at the peak of the type that the operation computes in; missing where the device's entry
    lacks a figure.
    """
    types = {one.computed_in for one in step.operations if one.flop}
    peaks = {name: _peak(name, device) for name in types}
    bandwidth = device.value("bandwidth_bytes_per_s")
    lacking = next((name for name, peak in peaks.items() if peak is None), None)
    if bandwidth is None or lacking is not None:
        what = "memory bandwidth" if lacking is None else f"peak in {lacking}"
        return _without(f"the entry of {device.name} states no {what}")
    speeds = {name: device.value(peak) or 0.0 for name, peak in peaks.items() if peak is not None}

    def seconds(phase: Phase) -> float:
        return sum(
            max(
                one.flop / speeds[one.computed_in] if one.flop else 0.0, one.moved_bytes / bandwidth
            )
            for one in step.operations
            if one.phase == phase
        )

    forward_s, backward_s, update_s = seconds("forward"), seconds("backward"), seconds("update")
    by_type = {
        name: sum(o.flop for o in step.operations if o.computed_in == name) for name in types
    }
    most = max(by_type, key=lambda name: by_type[name], default=None)
    return TimeBoundEstimate(
        step_s=forward_s + backward_s + update_s,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        compute_s=sum(flop / speeds[name] for name, flop in by_type.items()),
        peak=None if most is None else peaks[most],
        missing=None,
    )


def _peak(computed_in: str, device: Device) -> str | None:
    """The name of the fastest unit that may compute in this type; None where none is stated."""
    names = _PEAKS.get(computed_in, _WIDE_PEAKS)
    known = {name: value for name in names if (value := device.value(name)) is not None}
    return max(known, key=lambda name: known[name], default=None)


def _without(missing: str) -> TimeBoundEstimate:
    return TimeBoundEstimate(
        step_s=None,
        forward_s=None,
        backward_s=None,
        update_s=None,
        compute_s=None,
        peak=None,
        missing=missing,
    )
