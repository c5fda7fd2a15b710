"""Step time of a plain torch loop with the step probe attached over without, alternating."""

import argparse
import json
import math
import random
import tempfile
import time
from pathlib import Path

from training_loop import BATCH_SIZE, Loop
from trainload.intervals import ratio_interval
from trainload_worker.frameworks.torch.probe import StepProbe
from trainload_worker.process.events import EventWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--block-steps", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    loop = Loop(options.device, options.threads)
    loop.run(200)
    ratios: list[float] = []
    plain: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        events = EventWriter(str(Path(folder) / "events.jsonl"))
        end_s = time.monotonic() + options.seconds
        while time.monotonic() < end_s:
            seconds = {"P": 0.0, "W": 0.0}
            for kind in random.choice(("PWWP", "WPPW")):
                probe = StepProbe(events, rests=False)
                if kind == "W":
                    probe.attach()
                loop.run(5)
                seconds[kind] += loop.run(options.block_steps)
                if kind == "W":
                    probe.finish()
            ratios.append(math.log(seconds["W"] / seconds["P"]))
            plain.append(seconds["P"] / 2 / options.block_steps)
    interval = ratio_interval(ratios)
    assert interval is not None
    step_s = sorted(plain)[len(plain) // 2]
    print(
        f"  MLP 3 × 512, batch {BATCH_SIZE}, {options.device}, step {step_s * 1e3:.2f} ms: probe "
        f"ratio {interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}] "
        f"from {interval.observations} rounds"
    )
    if options.json:
        options.json.write_text(
            json.dumps({"unmonitored_step_s": step_s, **vars(interval)}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
