"""What one reading of each meter costs in CPU time, read at the sampler's pace.

A tight loop would flatter: between two samples 100 ms apart the caches have gone cold. Every
meter is read at each tick, so that slow ones are seen as well; `share` counts its own period.
"""

import argparse
import json
import os
import time
from pathlib import Path

from trainload.meters import MeterContext, available_columns, open_meters


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    period_s = 1.0 / options.rate
    meters = open_meters(MeterContext(target_pid=os.getpid(), interval_s=period_s))
    live = [meter for meter in meters if available_columns(meter)]
    cost_s: dict[str, list[float]] = {meter.name: [] for meter in live}
    end_s = time.monotonic() + options.seconds
    while time.monotonic() < end_s:
        for meter in live:
            start_s = time.thread_time()
            meter.read(time.monotonic())
            cost_s[meter.name].append(time.thread_time() - start_s)
        time.sleep(period_s)
    total = 0.0
    results = {}
    for meter in live:
        mean_s = sum(cost_s[meter.name]) / len(cost_s[meter.name])
        share = mean_s / max(period_s, meter.period_s)
        total += share
        results[meter.name] = {"read_cpu_s": mean_s, "period_s": meter.period_s, "share": share}
        print(
            f"  {meter.name:18} {mean_s * 1e6:8.1f} µs a reading, every "
            f"{max(period_s, meter.period_s):4.2g} s: {share * 100:6.3f} % of one core"
        )
    print(f"  together           {total * 100:6.3f} % of one core at {options.rate:g} Hz")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
