"""Step time under the sampler over step time unmonitored, beside two rivals, in one run.

    python bench/sampler_overhead.py                       here, on the CPU
    python bench/sampler_overhead.py --device cuda         with all NVIDIA meters

Rounds of four blocks (without, with, with, without) until the interval of the ratio is narrower
than --within or the time is over; every fifth round adds the rivals. The sampler's CPU share is
its own CPU seconds over the wall time it was active.
"""

import argparse
import json
import math
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from training_loop import BATCH_SIZE, Loop, PsutilThread, load_analysis_monitor
from trainload.hardware import read_machine
from trainload.intervals import Interval, ratio_interval
from trainload.run.sampling.config import SamplerConfig
from trainload.run.workers.processes import SamplerProcess

SETTLE_STEPS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--block-s", type=float, default=0.3)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--within", type=float, default=0.005, help="half-width to stop at")
    parser.add_argument("--json", type=Path, help="also write raw ratios and results here")
    options = parser.parse_args()
    loop = Loop(options.device, options.threads)
    loop.run(200)
    steps = max(30, round(options.block_s / (loop.run(200) / 200)))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(loop, steps, start_sampler(Path(folder), options), options)
        bench.run()
        bench.report()


def start_sampler(folder: Path, options: argparse.Namespace) -> SamplerProcess:
    config = SamplerConfig(
        samples_path=str(folder / "samples.jsonl"),
        rate_hz=options.rate,
        target_pid=os.getpid(),
        accelerator_uuids=tuple(a.uuid for a in read_machine().accelerators),
    )
    sampler = SamplerProcess(config, folder / "sampler.log")
    ready = sampler.wait_ready()
    print(f"{len(ready['columns'])} columns at {options.rate:g} Hz")
    return sampler


class Bench:
    """Rounds of blocks under each monitor, and the ratios they give."""

    def __init__(
        self, loop: Loop, steps: int, sampler: SamplerProcess, options: argparse.Namespace
    ) -> None:
        self.loop, self.steps, self.sampler, self.options = loop, steps, sampler, options
        self.look, self.load_analysis_name = load_analysis_monitor()
        self.thread = PsutilThread(options.rate)
        self.logs: dict[str, list[float]] = {
            "sampler": [],
            "load_analysis": [],
            "psutil_thread": [],
        }
        self.plain_step_s: list[float] = []
        self.sampler.say("pause")

    def run(self) -> None:
        deadline_s = time.monotonic() + self.options.seconds
        number = 0
        while time.monotonic() < deadline_s:
            self._round_with_sampler()
            if number % 5 == 0:
                self._round_with_rivals()
            number += 1
            interval = ratio_interval(self.logs["sampler"])
            if number >= 60 and interval and interval.half_width <= self.options.within:
                break
        self.stats = self.sampler.stop()

    def _round_with_sampler(self) -> None:
        order = random.choice(("PSSP", "SPPS"))
        seconds = {"P": 0.0, "S": 0.0}
        state = "P"
        for kind in order:
            if kind != state:
                self.sampler.say("resume" if kind == "S" else "pause")
                state = kind
            self.loop.run(SETTLE_STEPS)
            seconds[kind] += self.loop.run(self.steps)
        if state == "S":
            self.sampler.say("pause")
        self.logs["sampler"].append(math.log(seconds["S"] / seconds["P"]))
        self.plain_step_s.append(seconds["P"] / 2 / self.steps)

    def _round_with_rivals(self) -> None:
        self.loop.run(SETTLE_STEPS)
        plain_s = self.loop.run(self.steps)
        watched_s = self.loop.run(self.steps, self.look)
        self.logs["load_analysis"].append(math.log(watched_s / plain_s))
        self.loop.run(SETTLE_STEPS)
        plain_s = self.loop.run(self.steps)
        self.thread.start()
        threaded_s = self.loop.run(self.steps)
        self.thread.stop()
        self.logs["psutil_thread"].append(math.log(threaded_s / plain_s))

    def report(self) -> None:
        assert self.stats is not None
        active_s = self.stats["wall_s"] - self.stats["paused_s"]
        share = self.stats["loop_cpu_s"] / active_s
        plain_s = sorted(self.plain_step_s)[len(self.plain_step_s) // 2]
        print(
            f"MLP 3 × 512, batch {BATCH_SIZE}, {self.options.device}, {self.options.threads} "
            f"threads, {self.steps} steps a block, unmonitored step {plain_s * 1e3:.3f} ms"
        )
        names = {
            "sampler": f"trainload's sampler at {self.options.rate:g} Hz",
            "load_analysis": self.load_analysis_name,
            "psutil_thread": f"psutil in a thread at {self.options.rate:g} Hz",
        }
        results: dict[str, Any] = {}
        for key, name in names.items():
            interval = ratio_interval(self.logs[key])
            print(f"  {name:58} {_render(interval)}")
            results[key] = None if interval is None else vars(interval)
        print(
            f"  the sampler's CPU: {share * 100:.2f} % of one core while active "
            f"({self.stats['loop_cpu_s']:.3f} s in {active_s:.1f} s, {self.stats['samples']} "
            f"samples, {self.stats['late']} late, {self.stats['missed']} missed), "
            f"peak RSS {self.stats['peak_rss_bytes'] / 2**20:.1f} MiB"
        )
        if self.options.json:
            raw = {
                "device": self.options.device,
                "steps_per_block": self.steps,
                "unmonitored_step_s": plain_s,
                "step_time_ratios": results,
                "sampler_cpu_fraction": share,
                "sampler_stats": {k: v for k, v in self.stats.items() if k != "pauses"},
                "log_ratios": {k: [round(x, 5) for x in v] for k, v in self.logs.items()},
            }
            self.options.json.write_text(json.dumps(raw, indent=1) + "\n")


def _render(interval: Interval | None) -> str:
    if interval is None:
        return "too few rounds"
    return (
        f"ratio {interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}] "
        f"from {interval.observations} rounds"
    )


if __name__ == "__main__":
    main()
