"""Whether 200 traced windows in one process are survived, with and without CUDA graphs.

    python bench/window_endurance.py [--windows 200] [--json FILE]

Each form runs in a process of its own, since the question is whether one dies. Prints the exit
status of each, the mean step time before the first window, in the middle and after the last.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
FORMS = ("plain", "graph")


def train(form: str, windows: int) -> dict:
    import torch
    from torch import nn

    from trainload_worker.frameworks.torch.modules import ModuleNames
    from trainload_worker.frameworks.torch.tracer import Tracer, settle

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    rule = torch.optim.SGD(model.parameters(), lr=0.01)
    rows, labels = torch.randn(64, 256, device=device), torch.randint(0, 10, (64,), device=device)

    def work() -> None:
        nn.functional.cross_entropy(model(rows), labels).backward()
        rule.step()

    step = work
    if form == "graph":
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                rule.zero_grad(set_to_none=True)
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        rule.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            work()
        step = graph.replay

    def timed(count: int = 300) -> float:
        settle(device)
        begin = time.perf_counter()
        for _ in range(count):
            step()
        settle(device)
        return (time.perf_counter() - begin) / count * 1e6

    timed()
    tracer, times = Tracer(ModuleNames()), [timed()]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(windows):
            settle(device)
            tracer.open(memory=number % 2 == 0)
            for index in range(3):
                tracer.mark(index)
                step()
            settle(device)
            tracer.close(f"{folder}/window.json")
            for _ in range(5):
                step()
            if number == windows // 2:
                times.append(timed())
    times.append(timed())
    return {"form": form, "windows": windows, "before_us": times[0], "middle_us": times[1],
            "after_us": times[2]}  # fmt: skip


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=200)
    parser.add_argument("--form", choices=FORMS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.form:
        print(json.dumps(train(options.form, options.windows)))
        return
    rows = []
    for form in FORMS if torch.cuda.is_available() else FORMS[:1]:
        command = [sys.executable, __file__, "--form", form, "--windows", str(options.windows)]
        environment = {**os.environ, "KINETO_LOG_LEVEL": "99"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        row = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"form": form}
        rows.append({**row, "status": done.returncode})
        print(
            rows[-1] if done.returncode == 0 else f"{form}: {done.returncode} {done.stderr[-800:]}"
        )
    if options.json:
        options.json.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
