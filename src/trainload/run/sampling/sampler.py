"""The sampler process: reads the meters at a steady rate and appends what they say.

Runs beside the training in a process of its own, never inside it. Starts no process
per sample, and ends by itself when its driver is gone.
"""

import gc
import json
import math
import os
import resource
import select
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainload.meters import Meter, MeterContext, available_columns, describe_meters, open_meters
from trainload.record.append import LineAppender
from trainload.record.tables import SAMPLE_HEAD
from trainload.run.sampling.config import SamplerConfig

LATE_FRACTION = 0.1
"""A sample later than this share of the period counts as late."""
STATS_EVERY_S = 10.0
GIVE_UP_AFTER = 50
"""Failed reads in a row after which a meter is left alone."""


@dataclass(kw_only=True)
class SamplerStats:
    """What became of the sampler's own work."""

    samples: int = 0
    late: int = 0
    missed: int = 0
    paused_s: float = 0.0
    lost_lines: int = 0
    meter_errors: dict[str, int] = field(default_factory=dict)
    pauses: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class PausePlan:
    """Alternating blocks: how long each pause is, how often it comes, and how many there are."""

    start_s: float
    block_s: float
    cycle_s: float
    count: int

    def pause_at(self, t_s: float) -> tuple[float, float] | None:
        """The pause that `t_s` lies in, as its start and end; None outside all."""
        number = int((t_s - self.start_s) // self.cycle_s)
        if not 0 <= number < self.count:
            return None
        # The pause stands in the middle of its cycle, with active blocks on both sides.
        start = self.start_s + number * self.cycle_s + (self.cycle_s - self.block_s) / 2
        return (start, start + self.block_s) if start <= t_s < start + self.block_s else None


class Control:
    """Words from the driver on a file descriptor; its end means the driver is gone."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        os.set_blocking(fd, False)

    def wait(self, timeout_s: float) -> list[str]:
        """Lines that came within the time; 'stop' once the other side has closed."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, timeout_s))
        if not ready:
            return []
        data = os.read(self._fd, 65536)
        if not data:
            return ["stop"]
        *lines, self._rest = (self._rest + data).split(b"\n")
        words = (line.decode("utf-8", "replace").strip() for line in lines)
        return [word for word in words if word]


class Sampler:
    """Reads meters on a grid of ticks that does not drift, until told to stop."""

    def __init__(
        self, meters: list[Meter], appender: LineAppender, rate_hz: float, control: Control
    ) -> None:
        self._meters = meters
        self._appender = appender
        self._period_s = 1.0 / rate_hz
        self._control = control
        self._due: list[float] = [0.0] * len(meters)
        self._empty: list[list[None]] = [[None] * len(available_columns(m)) for m in meters]
        self._failures = [0] * len(meters)
        self._read_cpu_s = [0.0] * len(meters)
        self._held = False
        self._paused_since: float | None = None
        self._plan: PausePlan | None = None
        self.stats = SamplerStats()
        self.columns = [*SAMPLE_HEAD, *(c for m in meters for c in available_columns(m))]

    def run(self) -> None:
        """Sample until the word 'stop' comes or the driver is gone."""
        self._appender.append({"columns": self.columns, "period_s": self._period_s})
        start_s = wake_s = time.monotonic()
        next_stats_s = start_s + STATS_EVERY_S
        tick = 0
        while True:
            words = self._control.wait(wake_s - time.monotonic())
            now_s = time.monotonic()
            if "stop" in words:
                break
            for word in words:
                self._obey(word, now_s)
            until_s = self._pause_end(now_s)
            if until_s is not None:
                self._paused_since = self._paused_since or now_s
                wake_s = until_s
                continue
            if self._paused_since is not None:
                self._end_pause(now_s)
                tick = int((now_s - start_s) / self._period_s) + 1
            due = int((now_s - start_s) / self._period_s)
            if due >= tick:
                self._count(now_s - start_s, tick, due)
                self._sample(due, now_s)
                tick = due + 1
            wake_s = start_s + tick * self._period_s
            if now_s >= next_stats_s:
                next_stats_s += STATS_EVERY_S
                self.write_stats()
        self._end_pause(now_s)
        # A last reading of every meter, so that slow counters span the whole run.
        self._due = [0.0] * len(self._meters)
        self._sample(tick, now_s)
        self.write_stats()

    def _obey(self, word: str, now_s: float) -> None:
        verb, *arguments = word.split()
        if verb in ("pause", "resume"):
            self._held = verb == "pause"
        elif verb == "blocks":
            block_s, cycle_s, count = float(arguments[0]), float(arguments[1]), int(arguments[2])
            self._plan = PausePlan(start_s=now_s, block_s=block_s, cycle_s=cycle_s, count=count)

    def _pause_end(self, now_s: float) -> float | None:
        """When the pause that `now_s` lies in ends; None outside any pause."""
        if self._held:
            return now_s + 3600.0
        planned = self._plan.pause_at(now_s) if self._plan else None
        return planned[1] if planned else None

    def _end_pause(self, now_s: float) -> None:
        if self._paused_since is not None:
            self.stats.paused_s += now_s - self._paused_since
            self.stats.pauses.append((round(self._paused_since, 6), round(now_s, 6)))
            self._paused_since = None

    def _count(self, elapsed_s: float, expected: int, due: int) -> None:
        self.stats.missed += due - expected
        self.stats.late += elapsed_s - due * self._period_s > LATE_FRACTION * self._period_s

    def _sample(self, tick: int, now_s: float) -> None:
        values: list[Any] = []
        for position, meter in enumerate(self._meters):
            values += self._read(position, meter, now_s)
        read_s = time.monotonic() - now_s
        row = [tick, round(now_s, 6), round(read_s, 6), round(time.process_time(), 6), *values]
        try:
            self._appender.append(row)
        except ValueError:  # a meter said NaN or infinity: that is a missing value
            self._appender.append([v if v is None or math.isfinite(v) else None for v in row])
        self.stats.samples += 1

    def _read(self, position: int, meter: Meter, now_s: float) -> list[Any]:
        if now_s < self._due[position]:
            return self._empty[position]
        # Half a period of grace, so that a 1 s meter is read on each tenth tick at 10 Hz.
        self._due[position] = now_s + meter.period_s - self._period_s / 2
        begun_s = time.thread_time()
        try:
            values = meter.read(now_s)
            self._read_cpu_s[position] += time.thread_time() - begun_s
        except Exception:  # noqa: BLE001 - one meter's fault must not end the others' readings
            errors = self.stats.meter_errors
            errors[meter.name] = errors.get(meter.name, 0) + 1
            self._failures[position] += 1
            if self._failures[position] >= GIVE_UP_AFTER:
                self._due[position] = float("inf")
            return self._empty[position]
        self._failures[position] = 0
        return list(values)

    def write_stats(self) -> None:
        """Append the statistics so far; the last such line is the final word."""
        self.stats.lost_lines = self._appender.lost_lines
        self._appender.append({"stats": self.describe_stats()})

    def describe_stats(self) -> dict[str, Any]:
        """The statistics with the sampler's own use of the machine."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        stats = self.stats
        return {
            "samples": stats.samples,
            "late": stats.late,
            "missed": stats.missed,
            "paused_s": round(stats.paused_s, 6),
            "lost_lines": stats.lost_lines,
            "meter_errors": stats.meter_errors,
            "meter_cpu_s": {
                meter.name: round(spent_s, 6)
                for meter, spent_s in zip(self._meters, self._read_cpu_s, strict=True)
                if spent_s
            },
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 6),
            "peak_rss_bytes": _read_peak_rss_bytes(),
            "pauses": stats.pauses,
            "last_error": self._appender.last_error,
        }


def main() -> int:
    """Entry of the sampler process: configuration on the first line, then words."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the driver decides when sampling ends
    control = Control(sys.stdin.fileno())
    words: list[str] = []
    while not words:
        words = control.wait(60.0)
    if words[0] == "stop":
        return 0
    config = SamplerConfig(**json.loads(words[0]))
    if config.own_cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, config.own_cores)
    context = MeterContext(
        target_pid=config.target_pid,
        accelerator_uuids=_tuple(config.accelerator_uuids),
        accelerator_indices=_tuple(config.accelerator_indices),
        cores=_tuple(config.run_cores),
        interval_s=1.0 / config.rate_hz,
        replay_path=Path(config.replay_path) if config.replay_path else None,
        tegrastats_path=Path(config.tegrastats_path) if config.tegrastats_path else None,
    )
    opened_s = time.process_time()
    meters = open_meters(context, config.meter_names)
    live = [meter for meter in meters if available_columns(meter)]
    sampler = Sampler(live, LineAppender(Path(config.samples_path)), config.rate_hz, control)
    signal.signal(signal.SIGTERM, _raise_stop)
    _tell({"ready": True, "meters": describe_meters(meters), "columns": sampler.columns})
    gc.collect()
    gc.freeze()
    start_s, start_cpu_s = time.monotonic(), time.process_time()
    try:
        sampler.run()
    except _Stop:
        sampler.write_stats()
    stats = sampler.describe_stats()
    stats["open_cpu_s"] = round(start_cpu_s - opened_s, 6)
    stats["loop_cpu_s"] = round(time.process_time() - start_cpu_s, 6)
    stats["wall_s"] = round(time.monotonic() - start_s, 6)
    for meter in meters:
        meter.close()
    _tell({"stats": stats})
    return 0


class _Stop(BaseException):
    """Raised by SIGTERM so that the last statistics are still written."""


def _raise_stop(_number: int, _frame: Any) -> None:
    raise _Stop


def _read_peak_rss_bytes() -> int | None:
    """Peak resident memory; getrusage would count the parent's, taken over at the start."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # not told on this system
    return None


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)


def _tell(message: dict[str, Any]) -> None:
    """One line to the driver; a driver that is gone is no reason to fail."""
    try:
        os.write(sys.stdout.fileno(), json.dumps(message).encode() + b"\n")
    except OSError:
        pass
