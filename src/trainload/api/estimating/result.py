"""What an estimate of a training step says; values and how they show themselves.

Computed by others: nothing is traced, measured or written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.units import render_bytes

if TYPE_CHECKING:
    from trainload.analyse.peaks import MeasuredSteps
    from trainload.estimate.counts.answer import Counted, StepChoice
    from trainload.estimate.counts.bounds import TimeBoundEstimate
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.estimate.memory.fit import Span, Verdict
    from trainload.hardware.catalogue import Device


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimate:
    """Whether a training step fits a device, why, what would help, and its counts.

    Figures are `Span`s: `value_bytes`, and in `low_bytes` and `high_bytes` the range that holds
    the truth in 19 of 20 cases. A figure is None where nothing was traced, and `missing` says why.
    """

    title: str
    """What is trained."""
    choice: StepChoice | None
    """Batch, precision and optimizer; None for a script, which brings its own."""
    device: Device | None
    memory: MemoryAnswer
    """The traced step with its peak, its curve and what was tried to make it smaller."""
    counts: Counted | None
    """What the layer graph tells: parameters, FLOPs, bytes, bounds; None for the user's code."""
    measured: MeasuredSteps | None = None
    """What a few real steps took, where they were asked for instead of a trace."""

    @property
    def verdict(self) -> Verdict:
        """fits, does not fit, too close to call, or not known.

        Without a trace a lower bound can still show that the step does not fit.
        """
        if self.memory.estimate is not None:
            return self.memory.estimate.verdict
        return "not known" if self.counts is None else self.counts.bound.verdict

    @property
    def fits(self) -> bool | None:
        """The verdict as yes or no; None where it is neither."""
        return {"fits": True, "does not fit": False}.get(self.verdict)

    @property
    def running_out(self) -> float | None:
        """The chance that the step runs out of the device's memory."""
        return None if self.memory.estimate is None else self.memory.estimate.running_out

    @property
    def capacity_bytes(self) -> int | None:
        """What the device offers a training process; None where that is not known."""
        return None if self.memory.estimate is None else self.memory.estimate.capacity_bytes

    @property
    def allocated_bytes(self) -> Span | None:
        """Most that tensors and workspaces hold at once."""
        return None if self.memory.estimate is None else self.memory.estimate.allocated_bytes

    @property
    def reserved_bytes(self) -> Span | None:
        """Most that torch's allocator takes where nothing holds it back."""
        return None if self.memory.estimate is None else self.memory.estimate.reserved_bytes

    @property
    def device_bytes(self) -> Span | None:
        """Reserved, and what the process takes beside it."""
        return None if self.memory.estimate is None else self.memory.estimate.device_bytes

    @property
    def needed_bytes(self) -> Span | None:
        """The device memory from which on the step goes through."""
        return None if self.memory.estimate is None else self.memory.estimate.needed_bytes

    @property
    def ram_growth_bytes(self) -> Span | None:
        """Growth of resident memory, for a processor; None for a GPU."""
        return None if self.memory.ram is None else self.memory.ram.growth_bytes

    @property
    def time(self) -> TimeBoundEstimate | None:
        """How fast the step could be by the device's roofline; None without a device or counts."""
        from trainload.estimate.counts.traced import estimate_traced_time

        if self.counts is not None:
            return self.counts.time
        if self.memory.step is None or self.device is None:
            return None
        return estimate_traced_time(self.memory.step, self.device)

    @property
    def missing(self) -> str | None:
        """Why nothing is known of the memory; None where something is."""
        return self.memory.missing

    @property
    def head(self) -> str:
        """What is trained and how, in one line."""
        from trainload.report.memory.wording import render_head

        return render_head(self.title, self.choice)

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload estimate --json`."""
        from trainload.api.estimating.document import record_estimate

        return record_estimate(self).to_json()

    def to_text(self, layers: int = 10) -> str:
        """What `trainload estimate` prints, with so many of the costliest layers."""
        from trainload.report.memory.terminal import render_step

        return render_step(
            self.memory,
            self.head,
            counted=self.counts,
            time=self.time,
            measured=self.measured,
            layers=layers,
        )

    def to_html(self) -> str:
        """One page that needs no network; MissingPart where plotly is not installed."""
        from trainload.report.memory.html import render_memory_html

        return render_memory_html(self.memory, self.head)

    def __repr__(self) -> str:
        """Title, verdict and the figure it rests on."""
        said = "" if self.device is None else f" on {self.device.name}"
        known = self.needed_bytes or self.ram_growth_bytes
        needs = "" if known is None else f", needs {render_bytes(known.value_bytes)}"
        return f"<Estimate {self.title}{said}: {self.verdict}{needs}>"

    def _repr_html_(self) -> str:
        """For notebooks: the page without its curve, in a frame of its own."""
        from trainload.report.memory.html import render_memory_frame

        return render_memory_frame(self.memory, self.head)
