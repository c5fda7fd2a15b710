"""What page faults take of a CPU training's step: memory given back after each step, or kept.

    python bench/page_faults.py [--rounds 6] [--keep ROW]

Processes that train the same LSTM alternate, with glibc as it is and told to keep what is freed.
Prints steps, page faults and the system's time of a step, and the ratio of the rounds' steps with
its 95 % interval. Knows nothing of trainload's runs.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
from trainload.kept_memory import KEEPING  # noqa: E402

STEPS = 100


def train() -> dict[str, float]:
    """Medians and means of one process's steps, once these have settled."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    recurrent, head = nn.LSTM(28, 128, 2, batch_first=True), nn.Linear(128, 10)
    rule = torch.optim.Adam([*recurrent.parameters(), *head.parameters()])
    rows, labels = torch.randn(32, 100, 28), torch.randint(0, 10, (32,))
    times, begin = [], resource.getrusage(resource.RUSAGE_SELF)
    for number in range(2 * STEPS):
        if number == STEPS:
            begin = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        rule.zero_grad()
        nn.functional.cross_entropy(head(recurrent(rows)[0][:, -1]), labels).backward()
        rule.step()
        times.append(time.perf_counter() - began)
    end = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "step_s": statistics.median(times[STEPS:]),
        "faults": (end.ru_minflt - begin.ru_minflt) / STEPS,
        "system_s": (end.ru_stime - begin.ru_stime) / STEPS,
    }


def run(settings: Mapping[str, str]) -> dict[str, float]:
    """One process with these settings of the allocator."""
    command = [sys.executable, __file__, "--train"]
    environment = {**os.environ, **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--keep", metavar="ROW")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.train:
        print(json.dumps(train()))
        return
    from raw import keep
    from trainload.intervals import ratio_interval

    rows = []
    for number in range(words.rounds):
        forms = [("as it is", {}), ("kept", KEEPING)]
        for form, settings in forms if number % 2 else forms[::-1]:
            rows.append({"round": number, "form": form, **run(settings)})
    by = {form: [row for row in rows if row["form"] == form] for form in ("as it is", "kept")}
    lines = []
    for form, own in by.items():
        step, faults, system = (
            statistics.median(row[name] for row in own) for name in ("step_s", "faults", "system_s")
        )
        lines.append(
            f"{form:9} {1e3 * step:6.2f} ms a step, {faults:8,.0f} page faults, "
            f"{1e3 * system:6.2f} ms of the system's CPU time in it"
        )
    pairs = zip(by["kept"], by["as it is"], strict=True)
    found = ratio_interval([math.log(a["step_s"] / b["step_s"]) for a, b in pairs])
    if found is not None:
        lines.append(f"kept over as it is: {found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    print("\n".join(lines))
    if words.keep:
        keep("page_faults", words.keep, figures=rows, printed="\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
