"""When each step ran, kept in the driver for as long as the overhead measurement needs it."""

from array import array
from dataclasses import dataclass, field

from trainload_worker.protocol.events import Event, StepsDone


@dataclass(kw_only=True)
class StepSpans:
    """Starts and ends of steps on the monotonic clock, in order."""

    keep_s: float
    """Training time after which no more steps are kept."""
    starts_s: "array[float]" = field(default_factory=lambda: array("d"))
    ends_s: "array[float]" = field(default_factory=lambda: array("d"))

    def add(self, event: Event) -> None:
        """Take the steps of one event; other events are passed over."""
        if not isinstance(event, StepsDone) or not event.end_s:
            return
        if self.trained_s <= self.keep_s:
            self.starts_s.append(event.start_s)
            self.starts_s.extend(event.end_s[:-1])
            self.ends_s.extend(event.end_s)

    @property
    def trained_s(self) -> float:
        """Time from the first step's start to the last step's end; 0 before the first."""
        return self.ends_s[-1] - self.starts_s[0] if self.ends_s else 0.0

    def recent_step_s(self, count: int = 100) -> float | None:
        """Mean duration of the latest steps, pauses between them included; None without any."""
        taken = min(len(self.ends_s), count)
        return (self.ends_s[-1] - self.starts_s[-taken]) / taken if taken else None
