"""How much of a step is explained where the host is what it waits for, and what that costs.

    python bench/host_explained.py                       # the example scripts, one run each
    python bench/host_explained.py --cases plain,lightning_accumulating --json FILE.json
    python bench/host_explained.py --cost --rounds 8     # what a sample and a window cost

Cases need the libraries of their scripts (lightning, transformers, accelerate) beside torch. Of
each run: the explained share of a step, with the host's samples and from the same windows without
them; the rate reached; the time of one reading; the windows' cost; who the host's time belongs to.

`--cost` runs separate, alternating processes: Python of 35 frames with and without the timer, and
the windows of a tiny training of one thread with and without sampling; both in CPU seconds, since
others may use the machine too.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

EXAMPLES = ROOT / "examples" / "scripts"
CASES = {
    "plain": ("plain_loop.py", ["--epochs", "6", "--out", "{out}"]),
    "lightning": ("lightning_fit.py", ["--epochs", "6", "--accumulate", "1", "--out", "{out}"]),
    "lightning_accumulating": (
        "lightning_fit.py",
        ["--epochs", "6", "--accumulate", "4", "--out", "{out}"],
    ),
    "lightning_host_bound": (ROOT / "bench" / "scripts" / "host_bound.py", ["--out", "{out}"]),
    "hugging_face": ("hf_trainer.py", ["--out", "{out}"]),
}
DEPTH = 35
"""Frames of a stack in a trainer's callback."""
TURNS = 3_000_000


def run_case(name: str, threads: int) -> dict:
    """One run of a case; its figures."""
    script, arguments = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        words = [word.format(out=f"{folder}/out") for word in arguments]
        command = [sys.executable, "-m", "trainload", "run", str(EXAMPLES / script)]
        command += ["--threads", str(threads), "--out", f"{folder}/runs", "--", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, check=False
        )
        found = list(Path(folder, "runs").glob("*"))
        if done.returncode or len(found) != 1:
            raise SystemExit(f"{name} failed: {done.stdout[-500:]}{done.stderr[-1500:]}")
        return figures(name, found[0])


def figures(name: str, run_dir: Path) -> dict:
    """What the record says of a run, with the samples and without."""
    from trainload.analyse.attribution import load_run_layers
    from trainload.analyse.attribution.host_times import host_groups
    from trainload.record import open_run

    layers = load_run_layers(open_run(run_dir))
    rank, sampling = layers.ranks[0], layers.ranks[0].sampling
    forget_samples(run_dir)
    before = load_run_layers(open_run(run_dir)).ranks[0]
    groups = [
        [what, package, sum(one.time_s for one in members) / rank.step_s]
        for what, package, members in host_groups(rank.host)
    ]
    return {
        "case": name,
        "step_s": rank.step_s,
        "explained_fraction": rank.explained_fraction,
        "without_samples_fraction": before.explained_fraction,
        "parts_fraction": {part: time_s / rank.step_s for part, time_s in rank.parts.items()},
        "host": groups,
        "taken": sampling.taken,
        "rate_hz": sampling.rate_hz,
        "period_s": sampling.period_s,
        "reading_s": sampling.own_s,
        "waited_fraction": sampling.waited_fraction,
        "windows": rank.cost.windows,
        "cost_fraction": rank.cost.fraction,
    }


def forget_samples(run_dir: Path) -> None:
    """Take the samples out of a run's trace, as older records have none."""
    path = run_dir / "trace.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()))
    document["trainload"].pop("host")
    head = {"trainload": document.pop("trainload"), **document}
    path.write_bytes(gzip.compress(json.dumps(head).encode()))
    (run_dir / "layers.parquet").unlink(missing_ok=True)


def show(row: dict) -> None:
    """Print one case."""
    waited = row["waited_fraction"]
    print(
        f"{row['case']:24s} step {row['step_s'] * 1e3:.2f} ms: explained "
        f"{row['explained_fraction']:.1%}, without samples {row['without_samples_fraction']:.1%}; "
        f"{row['taken']} stacks, {row['rate_hz']:.0f} a second (timer "
        f"{1 / row['period_s']:.0f}), {row['reading_s'] * 1e6:.1f} µs each; "
        f"{row['windows']} windows cost {row['cost_fraction']:.1%}"
        + (f"; no core for {waited:.0%}" if waited is not None else "")
    )
    told = ", ".join(f"{what} ({package}) {share:.1%}" for what, package, share in row["host"][:6])
    print(f"{'':24s} host: {told}", flush=True)


def spin(depth: int) -> int:
    """Python at that depth which calls nothing."""
    if depth:
        return spin(depth - 1)
    total = 0
    for number in range(TURNS):
        total += number & 3
    return total


def child_stack(sampled: bool) -> dict:
    """CPU seconds of Python that is sampled or not, and how many samples there were."""
    from trainload_worker.windows.host_stacks import StackSampler

    sampler = StackSampler()
    if sampled:
        sampler.start(None)
    start_s = time.process_time()
    spin(DEPTH)
    cpu_s = time.process_time() - start_s
    sampler.stop()
    return {"cpu_s": cpu_s, "taken": sampler.take(0).taken}


def no_start(_sampler: object, _step_s: float | None) -> None:
    """Stands in for a sampler's start: nothing is sampled."""


def child_windows(sampled: bool) -> dict:
    """Median CPU seconds of a traced window of a tiny training."""
    import torch

    from trainload_worker.frameworks.torch import layers
    from trainload_worker.process.events import EventWriter
    from trainload_worker.protocol.spec import LayersSpec
    from trainload_worker.windows.host_stacks import StackSampler

    if not sampled:
        StackSampler.start = no_start  # type: ignore[method-assign]
    torch.set_num_threads(1)
    layers.REST_S = 0.0
    folder = tempfile.mkdtemp()
    events = EventWriter(f"{folder}/events.jsonl")
    spec = LayersSpec(1000.0, folder, "window-{index}.json")
    probe = layers.LayerProbe(events, spec, clock=time.process_time)
    parts = [torch.nn.Linear(64, 64) for _ in range(20)]
    model = torch.nn.Sequential(*parts)
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(16, 64)
    probe.attach()
    for _ in range(400):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    probe.finish()
    events.close()
    said = [json.loads(line) for line in Path(folder, "events.jsonl").read_text().splitlines()]
    timed = [e for e in said if e["kind"] == "window" and e["purpose"] == "time"][1:]
    shutil.rmtree(folder)
    return {"window_s": statistics.median(e["end_s"] - e["begin_s"] for e in timed)}


CHILDREN = {"stack": child_stack, "windows": child_windows}


def measure_cost(rounds: int) -> dict:
    """What sampling costs, by alternating processes."""
    rows: dict[str, list[dict]] = {}
    for number in range(rounds):
        for kind in CHILDREN:
            for variant in ("plain", "sampled") if number % 2 else ("sampled", "plain"):
                command = [sys.executable, __file__, "--child", kind, variant]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                rows.setdefault(f"{kind} {variant}", []).append(json.loads(done.stdout))
    pairs = zip(rows["stack sampled"], rows["stack plain"], strict=True)
    each = sorted((a["cpu_s"] - b["cpu_s"]) / a["taken"] for a, b in pairs)
    windows = zip(rows["windows sampled"], rows["windows plain"], strict=True)
    ratios = sorted(a["window_s"] / b["window_s"] for a, b in windows)
    print(
        f"a sample of {DEPTH} frames: {statistics.median(each) * 1e6:.1f} µs of CPU time "
        f"({each[0] * 1e6:.1f} … {each[-1] * 1e6:.1f}), {rounds} rounds\n"
        f"a window: {statistics.median(ratios):.3f} times the CPU time of one without sampling "
        f"({ratios[0]:.3f} … {ratios[-1]:.3f})"
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, metavar=("KIND", "VARIANT"))
    options = parser.parse_args()
    if options.child is not None:
        kind, variant = options.child
        print(json.dumps(CHILDREN[kind](variant == "sampled")))
        return
    found: object
    if options.cost:
        found = measure_cost(options.rounds)
    else:
        found = []
        for name in options.cases.split(","):
            found.append(run_case(name, options.threads))
            show(found[-1])
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
