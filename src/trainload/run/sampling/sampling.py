"""The sampler in the driver's care: started, watched, replaced when it dies, and summed up.

Decides nothing about the run; it tells what became of the sampling.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainload.checked import check_value
from trainload.errors import WorkerError
from trainload.record import (
    SAMPLE_HEAD,
    LineReader,
    RecordedMeter,
    SamplerUse,
    layout,
    read_tail,
)
from trainload.run.request import RunRequest
from trainload.run.sampling.config import SamplerConfig
from trainload.run.workers.processes import ExitWatch, SamplerProcess

MAX_RESTARTS = 20
START_TRIES = 3
BLOCK_STEPS = 20
BLOCK_LOW_S, BLOCK_HIGH_S = 0.3, 10.0
CYCLE_BLOCKS = 4
BLOCK_COUNT = 60
_SUMMED = ("samples", "late", "missed", "lost_lines", "paused_s", "cpu_s", "loop_cpu_s", "wall_s")


@dataclass
class Sampling:
    """All samplers of one run, one after the other where one died."""

    request: RunRequest
    run_dir: Path
    worker_pid: int
    start_s: float
    columns: list[str] = field(default_factory=list)
    meters: tuple[RecordedMeter, ...] = ()
    deaths: list[str] = field(default_factory=list)
    stats: list[dict[str, Any]] = field(default_factory=list)
    blocks_started: bool = False
    _process: SamplerProcess | None = None

    @property
    def own_cores(self) -> tuple[int, ...] | None:
        """Cores outside the setting, where the sampler disturbs nobody; None without any."""
        setting = set(self.request.setting.cores)
        return tuple(c for c in self.request.machine.allowed_cores if c not in setting) or None

    def start(self) -> None:
        """Start a sampler and wait until it has opened its meters.

        One that dies before that is replaced; WorkerError when START_TRIES have failed.
        """
        for left in reversed(range(START_TRIES)):
            try:
                self._start_once()
                break
            except WorkerError:
                self._note_death(None if self._process is None else self._process.ended)
                self._process = None
                if not left:
                    raise

    def _start_once(self) -> None:
        config = SamplerConfig(
            samples_path=str(self.run_dir / layout.SAMPLES),
            rate_hz=self.request.rate_hz,
            target_pid=self.worker_pid,
            accelerator_uuids=tuple(a.uuid for a in self.request.setting.accelerators),
            accelerator_indices=tuple(a.index for a in self.request.setting.accelerators),
            run_cores=self.request.setting.cores,
            own_cores=self.own_cores,
            tegrastats_path=self.request.tegrastats_path,
        )
        self._process = SamplerProcess(config, self.run_dir / layout.SAMPLER_LOG)
        ready = self._process.wait_ready()
        self.columns = ready["columns"]
        self.meters = check_value(tuple[RecordedMeter, ...], ready["meters"], "the meters")

    def keep_alive(self) -> str | None:
        """Replace a sampler that died; what happened, or None while all is well."""
        if self._process is None or self._process.ended is None:
            return None
        self._note_death(self._process.ended)
        self._process.kill()
        self.blocks_started = False
        if len(self.deaths) > MAX_RESTARTS:
            self._process = None
            return f"{self.deaths[-1]}; the last of {MAX_RESTARTS}: training goes on unmeasured"
        try:
            self.start()
        except WorkerError:
            return f"{self.deaths[-1]}; none could be started anew: training goes on unmeasured"
        return f"{self.deaths[-1]}; a new one takes over"

    @property
    def exit_watches(self) -> tuple[ExitWatch, ...]:
        """What to wait on beside the worker, so that a death is seen at once."""
        return () if self._process is None else (self._process.exit_watch,)

    def start_blocks(self, step_s: float) -> float:
        """Begin the pauses that measure the sampler's own cost; how many seconds they will take.

        Each is long enough for many steps.
        """
        if self._process is None:
            return 0.0  # sampling was given up
        block_s = min(max(BLOCK_LOW_S, BLOCK_STEPS * step_s), BLOCK_HIGH_S)
        self._process.start_blocks(block_s, CYCLE_BLOCKS * block_s, BLOCK_COUNT)
        self.blocks_started = True
        return BLOCK_COUNT * CYCLE_BLOCKS * block_s

    def stop(self) -> None:
        """End the sampler and gather all statistics; nothing of it runs when this returns."""
        last = None
        if self._process is not None:
            died = self._process.ended
            last = self._process.stop()
            if last is None:
                self._note_death(died)
        if self.deaths:
            self.stats += _earlier_stats(self.run_dir / layout.SAMPLES, last is None)
        if last is not None:
            self.stats.append(last)

    @property
    def pauses(self) -> list[tuple[float, float]]:
        """Pauses on the monotonic clock, known once stopped."""
        return [(start, end) for one in self.stats for start, end in one.get("pauses", [])]

    @property
    def lost_lines(self) -> int:
        """Samples that could not be written."""
        return sum(one.get("lost_lines", 0) for one in self.stats)

    @property
    def write_error(self) -> str | None:
        """Why samples could not be written; None where all were."""
        return next((one["last_error"] for one in self.stats if one.get("last_error")), None)

    def latest_loads(self) -> dict[str, float]:
        """The newest fractions, bytes and watts by column; {} before the first sample."""
        rows = [v for v in read_tail(self.run_dir / layout.SAMPLES, 8192) if isinstance(v, list)]
        if not rows or len(rows[-1]) != len(self.columns):
            return {}
        return {
            name: value
            for name, value in zip(self.columns, rows[-1], strict=True)
            if value is not None and name.endswith(("_fraction", "_bytes", "_w"))
        }

    def summary(self) -> SamplerUse:
        """The form kept in run.json."""
        peaks = [one.get("peak_rss_bytes") for one in self.stats]
        return SamplerUse(
            rate_hz=self.request.rate_hz,
            **{name: round(sum(one.get(name, 0) for one in self.stats), 6) for name in _SUMMED},
            peak_rss_bytes=max(filter(None, peaks), default=None),
            meter_errors=self._sum_by_meter("meter_errors"),
            meter_cpu_s=self._sum_by_meter("meter_cpu_s"),
            restarts=len(self.deaths),
            cores=self.own_cores,
        )

    def _sum_by_meter(self, key: str) -> dict[str, Any]:
        """A statistic kept by meter, summed over all samplers of the run."""
        total: dict[str, Any] = {}
        for one in self.stats:
            for name, amount in one.get(key, {}).items():
                total[name] = round(total.get(name, 0) + amount, 6)
        return total

    def _note_death(self, status: int | None) -> None:
        at_s = time.monotonic() - self.start_s
        how = "stopped answering" if status is None else f"died with status {status}"
        self.deaths.append(f"the sampler {how} at {at_s:.1f} s")


def _earlier_stats(samples_path: Path, with_last: bool) -> list[dict[str, Any]]:
    """Statistics of samplers that died, one for each header in the file.

    What a sampler could not tell any more is counted from the rows it left.
    """
    found: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for value in LineReader(path=samples_path).read_rest():
        if isinstance(value, dict) and "columns" in value:
            found.append({"samples": 0})
            rows.append([])
        elif found and isinstance(value, dict) and isinstance(value.get("stats"), dict):
            found[-1] = {**value["stats"], "samples": found[-1]["samples"]}
        elif found and isinstance(value, list) and len(value) >= len(SAMPLE_HEAD):
            found[-1]["samples"] += 1
            rows[-1] = [rows[-1][0] if rows[-1] else value, value]
    for one, ends in zip(found, rows, strict=True):
        if ends:
            first, last = ends
            one["wall_s"] = last[1] - first[1]
            one["cpu_s"], one["loop_cpu_s"] = last[3], last[3] - first[3]
    return found if with_last else found[:-1]
