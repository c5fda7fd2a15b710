"""How much of a compiled model's kernel time carries the name of a module inside it.

    python bench/compiled_named.py --run RUNS [--cases gpt,resnet50] [--steps 200] [--small]
    python bench/compiled_named.py --read RUNS

The first needs torch (on a GPU the sizes of the published figures), the second what reads tables;
they may be different machines. Kernels of the whole model's own code, such as a loss in its
forward pass, count as not named.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
SCRIPT = ROOT / "bench" / "scripts" / "compiled_case.py"


def run_case(case: str, steps: int, small: bool, out: Path) -> None:
    words = [case, str(steps), *(["small"] if small else [])]
    head = [sys.executable, "-m", "trainload.run", str(SCRIPT), "--layers", "--out", str(out)]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*head, "--", *words], check=True, env={**os.environ, **environment})


def read_run(path: Path) -> dict:
    from trainload.api.loading import load

    run = load(path)
    rank = run.attribution.ranks[0]
    inside = [node for node in rank.nodes if node.layer]
    named_s = sum(node.forward_s + node.backward_s for node in inside)
    whole_s = rank.parts.get("forward", 0.0) + rank.parts.get("backward", 0.0)
    forward_s = sum(node.forward_s for node in inside)
    return {
        "case": " ".join(run.manifest.workload.script.arguments),
        "device": rank.device,
        "step_s": rank.step_s,
        "kernels_s": whole_s,
        "named_fraction": named_s / whole_s,
        "named_forward_fraction": forward_s / rank.parts["forward"],
        "named_backward_fraction": (named_s - forward_s) / rank.parts["backward"],
        "explained_fraction": rank.explained_fraction,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--cases", default="gpt,gpt_blocks,resnet50")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.run is not None:
        for case in options.cases.split(","):
            run_case(case, options.steps, options.small, options.run)
    if options.read is not None:
        rows = [read_run(path) for path in sorted(options.read.iterdir())]
        for row in rows:
            forward, backward = row["named_forward_fraction"], row["named_backward_fraction"]
            print(
                f"{row['case']:20} {row['device']:7} step {row['step_s'] * 1e3:7.2f} ms, kernels "
                f"{row['kernels_s'] * 1e3:7.2f} ms: {row['named_fraction']:.1%} named (forward "
                f"{forward:.1%}, backward {backward:.1%})"
            )
        if options.json is not None:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
