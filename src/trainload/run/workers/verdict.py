"""How a run ended: exit status, the worker's last word and the sampler's fate become an outcome.

Pure decisions on plain values, apart from the kernel's count of out-of-memory kills.
"""

import signal
from dataclasses import dataclass
from pathlib import Path

from trainload.hardware import CgroupLimits
from trainload_worker.protocol.events import End
from trainload_worker.protocol.outcomes import EXIT_EVENTS_LOST, Outcome


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Everything that is known when a run has ended."""

    exit_status: int
    end_event: End | None
    stopped_by: Outcome | None = None
    """`timed_out` or `interrupted` where the driver ended the worker itself."""
    stop_reason: str | None = None
    oom_kills: int = 0
    sampler_deaths: tuple[str, ...] = ()
    lost_samples: int = 0
    write_error: str | None = None
    """Why samples could not be written."""
    last_log_line: str | None = None
    program_began: bool = False
    """Whether it was a user's own program, which came to run: its exit status then tells."""


def decide_outcome(ending: Ending) -> tuple[Outcome, str | None]:
    """The outcome and its reason in one line; None as reason for a completed run."""
    event = ending.end_event
    if event is not None and event.outcome == "completed" and ending.exit_status == 0:
        return _judge_record(ending, event.events_lost)
    if ending.stopped_by is not None:
        return ending.stopped_by, ending.stop_reason
    if event is not None and event.outcome != "completed":
        if event.outcome == "killed" and event.signal == signal.SIGKILL and ending.oom_kills:
            return "out_of_memory", f"rank {event.rank}: the kernel killed it for want of memory"
        return event.outcome, event.reason or "the worker gave no reason"
    if event is None and ending.exit_status == 0 and ending.program_began:
        return _judge_record(ending, 0)  # it left by os._exit or became another program
    if ending.exit_status < 0:
        return _judge_signal(ending)
    if ending.exit_status == EXIT_EVENTS_LOST:
        return "failed", "the training's events could not be written (disk full?)"
    tail = f": {ending.last_log_line}" if ending.last_log_line else ""
    words = "and no last word" if event is None else "after its last word"
    return "failed", f"the worker ended with status {ending.exit_status} {words}{tail}"


def _judge_record(ending: Ending, events_lost: int) -> tuple[Outcome, str | None]:
    """A training that finished is a completed run only with a whole record."""
    if ending.sampler_deaths:
        return "killed", (
            f"the training finished, but {ending.sampler_deaths[0]}; samples are missing around it"
        )
    if events_lost or ending.lost_samples:
        return "failed", (
            f"the training finished, but {events_lost} events and {ending.lost_samples} samples "
            f"could not be written: {ending.write_error or 'disk full?'}"
        )
    return "completed", None


def _judge_signal(ending: Ending) -> tuple[Outcome, str]:
    number = -ending.exit_status
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL and ending.oom_kills:
        return "out_of_memory", "the kernel killed the worker for want of memory"
    if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        return "killed", f"the worker was killed by {name}"
    return "failed", f"the worker crashed with {name}; see worker.log"


def read_oom_kills(limits: CgroupLimits, proc_root: Path = Path("/proc")) -> int | None:
    """Processes the kernel has killed for want of memory, in this control group or machine.

    None where the kernel does not count them.
    """
    sources = []
    if limits.memory_path is not None:
        sources += [limits.memory_path / "memory.events", limits.memory_path / "memory.oom_control"]
    counts = [_read_count(path) for path in [*sources, proc_root / "vmstat"]]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _read_count(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return None
