"""Whether attributed times are in proportion: layer k of a model does k times the work of layer 1.

    python bench/layers_proportion.py --device cpu --out proportion
    python bench/layers_proportion.py --table proportion

Prints each layer's forward and backward time over k times the mean of all layers by unit of work.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

import layers as layer_bench

LAYERS = 6
WIDTH = {"cpu": 384, "cuda": 4096}


class Repeated(nn.Module):
    """Multiplies by `times` weights, one after the other."""

    def __init__(self, times: int, width: int) -> None:
        super().__init__()
        # Each of its own: gradients of a shared one would have to be added up, which is more work.
        turn = torch.linalg.qr(torch.randn(width, width))[0].contiguous()
        self.weights = nn.ParameterList(nn.Parameter(turn.clone()) for _ in range(times))

    def forward(self, inputs: Any) -> Any:
        """As many equal products as `times` says."""
        for weight in self.weights:
            inputs = inputs @ weight
        return inputs


class Ladder(nn.Module):
    """Layer k has k times the work of the first; a fixed order that is not sorted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        order = [3, 1, 6, 2, 5, 4]
        self.rungs = nn.ModuleDict({f"k{times}": Repeated(times, width) for times in order})

    def forward(self, inputs: Any) -> Any:
        """All rungs, one after the other."""
        for rung in self.rungs.values():
            inputs = rung(inputs)
        return inputs


def measure(device: str, out: Path, seconds: float) -> None:
    """Train the ladder under windows and leave its run directory."""
    width = WIDTH[device]
    model = Ladder(width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    inputs = torch.randn(width, width, device=device, requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).sum().backward()
        optimizer.step()

    case = layer_bench.layer_cases.Case(model=model, optimizer=optimizer, step=step)
    bench = layer_bench.CaseBench("ladder", case, device, out, budget=0.5)
    bench.run_windows(seconds)
    path = bench.close()
    (out / "ladder.json").write_text(json.dumps({"run": path.name, "device": device}))


def print_table(folder: Path) -> None:
    """Proportions from the sealed run directory; the last line is the largest deviation."""
    import polars as pl

    from trainload.analyse.attribution import load_run_layers
    from trainload.record import open_run

    run = open_run(folder / json.loads((folder / "ladder.json").read_text())["run"])
    layers = load_run_layers(run)
    assert layers is not None
    rows = layers.ranks[0].rows.filter(pl.col("kind") == "layer")
    worst = 0.0
    print("| layer | forward | backward |")
    print("|---|---|---|")
    units: dict[str, dict[int, float]] = {}
    for phase in ("forward", "backward"):
        for times in range(1, LAYERS + 1):
            own = rows.filter((pl.col("layer") == f"rungs.k{times}") & (pl.col("phase") == phase))
            by_step = own.group_by("step").agg(pl.col("traced_s").sum())
            units.setdefault(phase, {})[times] = float(by_step["traced_s"].median()) / times
    means = {phase: sum(of.values()) / len(of) for phase, of in units.items()}
    for times in range(1, LAYERS + 1):
        ratios = [units[phase][times] / means[phase] for phase in ("forward", "backward")]
        worst = max(worst, *(abs(ratio - 1) for ratio in ratios))
        print(f"| k = {times} | {ratios[0]:.3f} | {ratios[1]:.3f} |")
    print(f"largest deviation from proportion: {worst:.1%} over {rows['step'].n_unique()} steps")


def main() -> None:
    """Parse the command line and do what it asks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path, default=Path("layers-proportion"))
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--no-table", action="store_true", help="measure alone")
    parser.add_argument("--table", type=Path, help="print the table of that folder alone")
    options = parser.parse_args()
    if options.table is None:
        options.out.mkdir(parents=True, exist_ok=True)
        measure(options.device, options.out, options.seconds)
    if not options.no_table:
        print_table(options.table or options.out)


if __name__ == "__main__":
    main()
