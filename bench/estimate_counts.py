"""Counts and Jamgharyan's expressions of every built-in model, beside torch's FLOP counter.

The rival builds the same graph on torch's meta device and counts one forward and backward pass.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from trainload.estimate import estimate_complexity, estimate_memory_bound, estimate_step
from trainload.workload import MODELS, build_model

LIMIT_S = 0.05
BATCH = 4


def count(name: str) -> int:
    """The graph built anew, its counts, the bound on memory and both complexities."""
    graph = build_model(name, MODELS[name].options())
    step = estimate_step(graph, batch_size=BATCH)
    estimate_memory_bound(step)
    estimate_complexity(graph)
    return step.total("flop")


def count_by_torch(name: str) -> int:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from trainload_worker.frameworks.torch.graph import GraphModule

    graph = build_model(name, MODELS[name].options())
    tokens = graph.layers[0].attributes["dtype"] == "int64"
    with torch.device("meta"):
        module = GraphModule(graph.to_spec())
        shape = (BATCH, *graph.input_shape)
        rows = torch.zeros(shape, dtype=torch.int64 if tokens else torch.float32)
    with FlopCounterMode(display=False) as counter:
        module(rows).sum().backward()
    return int(counter.get_total_flops())


def timed(action: Callable[[str], int], name: str, rounds: int) -> tuple[float, int]:
    times_s = []
    for _ in range(rounds):
        start_s = time.perf_counter()
        flop = action(name)
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s), flop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        import torch  # noqa: F401

        rival = True
    except ImportError:
        rival = False
        print("  torch is not installed: no rival")
    rows = []
    for name in MODELS:
        count(name)
        own_s, flop = timed(count, name, options.rounds)
        row = {"model": name, "median_s": own_s, "flop": flop}
        line = f"  {name:20} {own_s * 1e3:6.2f} ms"
        if rival:
            count_by_torch(name)
            row["torch_median_s"], row["torch_flop"] = timed(count_by_torch, name, 3)
            difference = flop / row["torch_flop"] - 1
            line += f"   torch {row['torch_median_s'] * 1e3:7.1f} ms   FLOPs {difference:+.2%}"
        print(line)
        rows.append(row)
    worst = max(rows, key=lambda row: row["median_s"])
    print(
        f"  slowest: {worst['model']}, {worst['median_s'] * 1e3:.1f} ms of {LIMIT_S * 1e3:.0f} ms"
    )
    if rival:
        ratio = sum(row["torch_median_s"] for row in rows) / sum(row["median_s"] for row in rows)
        print(f"  torch's counter takes {ratio:.0f} × as long over all models")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
