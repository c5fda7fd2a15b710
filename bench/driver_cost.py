"""Step time under `trainload run` over that of a loop written by hand, in each framework.

    python bench/driver_cost.py --json FILE

The loops of `bench/scripts/loop_*.py` train an equal model, written natively, on the very batches
of the run, and read every loss as it does. A round has two sides, the run with its driver and
sampler and the loop, which live at the same time but compute in turns of about a second: one side
is held by SIGSTOP while the other goes on. So both meet the same state of a noisy machine, and a
round needs one start. What counts is the whole time between the first and the last step's end
of a turn, epochs' ends and written events included; the first moment of a turn, in which caches
fill again, is left out on both sides, and so is a pair of turns under unequal load by others.

Epochs last some two seconds or more, as in life, where an epoch's end weighs little; what it costs
is told apart. The CPU time of both training processes is a second witness, which load by others
hardly touches.
"""

import argparse
import contextlib
import json
import math
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import psutil

from trainload.intervals import ratio_interval
from trainload.record import open_run
from trainload.run import find_environment
from trainload.workload import assemble_workload, parse_words
from trainload_worker.protocol.spec import SettingSpec, TrainSpec
from trainload_worker.training.prepare import prepare

LIMIT = 1.02
FRAMEWORKS = ("torch", "tensorflow", "jax", "mxnet")
MODELS = {"mlp": (512, 150), "lenet5": (64, 300)}
"""Examples in a batch and steps in an epoch."""
SIDES = ("hand", "run")
SCRIPTS = Path(__file__).with_name("scripts")
TURN_S, SETTLE_S = 1.1, 0.1
"""The worker writes events down every half second: twice in what is left of a turn, as in life."""
UNEQUAL = 0.1
"""Cores that others may have used more of in one turn of a pair than in the other."""
START_LIMIT_S = 120.0
EPOCHS_WRITTEN = 4
"""The loop by hand goes through them again and again."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--frameworks", nargs="+", choices=FRAMEWORKS, default=list(FRAMEWORKS))
    parser.add_argument("--rounds", type=int, default=3, help="pairs of processes of each kind")
    parser.add_argument("--pairs", type=int, default=6, help="pairs of turns in each round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as scratch:
            words = write_batches(model, Path(scratch), options)
            rows += [
                compare(model, framework, words, Path(scratch), options)
                for framework in options.frameworks
            ]
    print("  step time under trainload over a loop by hand, 95 % interval:")
    for row in rows:
        print(f"  {row['model']:8} {row['framework']:11} {row['text']}")
    if options.json:
        document = {"command": shlex.join(["python", *sys.argv]), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(row["ratio"] is None or row["ratio"] > LIMIT for row in rows))


def write_batches(model: str, folder: Path, options: Any) -> dict[str, str]:
    """The run's own examples and order, as files that need no trainload; its `--set` words."""
    batch_size, per_epoch = MODELS[model]
    words = {
        "data": "synthetic",
        "rows": str(math.ceil(batch_size * per_epoch / 0.8)),
        "batch_size": str(batch_size),
        "epochs": "1000",
        "validate": "never",
        "learning_rate": "1e-4",
        "weight_decay": "1e-4",
    }
    given = [f"{name}={value}" for name, value in words.items()]
    workload = assemble_workload(model, parse_words(model, given))
    spec = TrainSpec(
        events_path=str(folder / "none.jsonl"),
        framework="torch",
        graph=workload.graph.to_spec(),
        data=workload.data,
        training=workload.training,
        seeds=workload.seeds,
        setting=SettingSpec(threads=options.threads),
    )
    made = prepare(spec)
    batches: list[list[int]] = []
    for epoch in range(EPOCHS_WRITTEN):
        rows = list(made.rows_of(epoch))
        batches += [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
    shape = spec.graph.layers[0].output_shape
    features = numpy.frombuffer(made.dataset.features, dtype=made.dataset.form)
    numpy.save(folder / "features.npy", features.reshape(-1, *shape))
    numpy.save(folder / "labels.npy", numpy.frombuffer(made.dataset.labels, dtype=numpy.int64))
    (folder / "batches.json").write_text(json.dumps(batches))
    told = {"model": model, "threads": options.threads}
    (folder / "options.json").write_text(json.dumps(told))
    return words


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One side went on alone from `begin_s` to `end_s`."""

    side: str
    begin_s: float
    end_s: float
    own_cpu_s: float
    """Of the training process alone."""
    others_cores: float
    """Cores that neither side used but somebody did, the hypervisor's other guests included."""


class Side:
    """A process with all it started, which can be held and let go."""

    def __init__(self, name: str, command: list[str], output: Path) -> None:
        self.name, self.output = name, output
        with output.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        self.tree = [psutil.Process(self.process.pid)]
        self.trained = self.tree[0]
        self._held = False

    def is_ready(self) -> bool:
        """Whether its first steps are behind it."""
        return b"ready" in self.output.read_bytes()

    def adopt(self) -> None:
        """Learns who belongs to it, once all have been started."""
        self.tree = [self.tree[0], *self.tree[0].children(recursive=True)]

    def hold(self) -> None:
        """Stops it where it stands, those that compute first."""
        if not self._held:
            self._signal(signal.SIGSTOP)
        self._held = True

    def go(self) -> None:
        """Lets it go on."""
        if self._held:
            self._signal(signal.SIGCONT)
        self._held = False

    def _signal(self, number: int) -> None:
        for process in reversed(self.tree):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def cpu_s(self) -> float:
        """CPU time of all of it so far."""
        return sum(used_s(process) for process in self.tree)

    def end(self, number: int) -> None:
        """Asks it to end and waits until it has."""
        self.go()
        self.process.send_signal(number)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()


class RunSide(Side):
    """A run by trainload: driver, sampler and worker."""

    def __init__(self, command: list[str], out: Path, output: Path) -> None:
        super().__init__("run", command, output)
        self._out = out

    @property
    def record(self) -> Path:
        """The folder of the run."""
        return next(path for path in self._out.iterdir() if path.is_dir())

    def is_ready(self) -> bool:
        """Whether steps have been written down."""
        for path in self._out.glob("*/events.jsonl"):
            lines = path.read_text().splitlines()
            if any(line.startswith('{"kind":"steps"') for line in lines):
                hello = next(json.loads(line) for line in lines if '"kind":"hello"' in line)
                self.trained = psutil.Process(hello["pid"])
                return True
        return False


def used_s(process: psutil.Process) -> float:
    """CPU time of one process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def busy_s() -> float:
    """CPU time of the whole machine so far, and what the hypervisor gave to others."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def compare(
    model: str, framework: str, words: dict[str, str], folder: Path, options: Any
) -> dict[str, Any]:
    """Rounds of two sides in turns, and the ratio of their step times."""
    python = find_environment(framework).python
    row: dict[str, Any] = {"model": model, "framework": framework, "ratio": None}
    if python is None:
        return {**row, "text": f"not installed: trainload env create {framework}"}
    rounds = []
    for number in range(options.rounds):
        print(f"  {model} in {framework}: round {number + 1}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            rounds.append(
                run_round(model, framework, python, words, folder, Path(scratch), options)
            )
    row["rounds"] = rounds
    return {**row, **summarise(rounds)}


def summarise(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The ratio over all pairs that count, and its text."""
    pairs = [pair for found in rounds for pair in found["pairs"]]
    kept = [pair for pair in pairs if pair["counts"]]
    if not kept:
        return {"text": f"all {len(pairs)} pairs met unequal load by others"}
    hand, run = ([pair[side]["step_s"] for pair in kept] for side in SIDES)
    logs = [math.log(b / a) for a, b in zip(hand, run, strict=True)]
    cpu = math.exp(
        statistics.fmean(math.log(found["run_cpu_s"] / found["hand_cpu_s"]) for found in rounds)
    )
    text = f"{statistics.median(run) * 1e3:7.2f} over {statistics.median(hand) * 1e3:7.2f} ms: "
    interval = ratio_interval(logs)
    found: dict[str, Any] = {"ratio": math.exp(statistics.median(logs)), "cpu_ratio": cpu}
    if interval is None:
        text += f"{found['ratio']:.4f} (too few pairs)"
    else:
        found |= {"ratio": interval.value, "low": interval.low, "high": interval.high}
        text += f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"
    ends_s = [gap for each in rounds for gap in each["epoch_ends_s"]]
    if ends_s:
        text += f", epoch's end {statistics.median(ends_s) * 1e3:.1f} ms"
    others = statistics.fmean(pair[side]["others_cores"] for pair in kept for side in SIDES)
    text += f"; CPU {cpu:.3f}; {len(kept)} of {len(pairs)} pairs, others on {others:.1f} cores"
    return {**found, "others_cores": others, "text": text}


def run_round(
    model: str,
    framework: str,
    python: str,
    words: dict[str, str],
    folder: Path,
    scratch: Path,
    options: Any,
) -> dict[str, Any]:
    """Two sides from their start to their end: pairs of turns, and what they used."""
    sets = [f"--set={name}={value}" for name, value in words.items()]
    run_words = [
        *(sys.executable, "-m", "trainload", "run", model, f"--framework={framework}"),
        *(*sets, f"--threads={options.threads}", f"--out={scratch / 'out'}", "--json"),
    ]
    hand = Side(
        "hand",
        [python, str(SCRIPTS / f"loop_{framework}.py"), str(folder)],
        scratch / "hand.txt",
    )
    run = RunSide(run_words, scratch / "out", scratch / "run.txt")
    try:
        wait_until_ready([hand, run])
        turns = take_turns(hand, run, options.pairs)
    finally:
        try:
            run.end(signal.SIGINT)
        finally:
            hand.end(signal.SIGTERM)
    hand_end_s = json.loads(hand.output.read_text().splitlines()[-1])["end_s"]
    record = open_run(run.record)
    start_s = record.manifest.origin_s
    ends = {"hand": hand_end_s, "run": [start_s + at_s for at_s in record.steps["end_s"]]}
    epochs = record.epochs
    gaps = zip(epochs["end_s"], epochs["start_s"][1:], strict=False)
    return {
        "pairs": [judge(turns[at], turns[at + 1], ends) for at in range(0, len(turns), 2)],
        **{f"{side}_cpu_s": cpu_per_step(turns, side, ends[side]) for side in ends},
        "epoch_ends_s": [after_s - before_s for before_s, after_s in gaps],
    }


def wait_until_ready(sides: list[Side]) -> None:
    """Lets both come past their first steps; who is ready waits for the other."""
    limit_s = time.monotonic() + START_LIMIT_S
    waiting = list(sides)
    while waiting:
        for side in list(waiting):
            assert side.process.poll() is None, side.output.read_text()[-2000:]
            if side.is_ready():
                side.adopt()
                side.hold()
                waiting.remove(side)
        assert time.monotonic() < limit_s, f"{waiting[0].name} makes no step"
        time.sleep(0.1)


def take_turns(hand: Side, run: Side, pairs: int) -> list[Turn]:
    """Both sides one after the other, and the other way round in every second pair."""
    turns = []
    for number in range(pairs):
        for side in (hand, run) if number % 2 else (run, hand):
            own_s, both_s, machine_s = used_s(side.trained), hand.cpu_s() + run.cpu_s(), busy_s()
            begin_s = time.monotonic()
            side.go()
            time.sleep(TURN_S)
            side.hold()
            end_s = time.monotonic()
            others_s = busy_s() - machine_s - (hand.cpu_s() + run.cpu_s() - both_s)
            turns.append(
                Turn(
                    side=side.name,
                    begin_s=begin_s,
                    end_s=end_s,
                    own_cpu_s=used_s(side.trained) - own_s,
                    others_cores=others_s / (end_s - begin_s),
                )
            )
    return turns


def judge(first: Turn, second: Turn, ends: dict[str, list[float]]) -> dict[str, Any]:
    """Both sides' step times, and whether they can be compared."""
    pair: dict[str, Any] = {}
    for turn in (first, second):
        inside = [s for s in ends[turn.side] if turn.begin_s + SETTLE_S <= s <= turn.end_s]
        assert len(inside) > 2, f"steps of {turn.side} are too long for a turn of {TURN_S} s"
        step_s = (inside[-1] - inside[0]) / (len(inside) - 1)
        pair[turn.side] = {"step_s": step_s, "others_cores": turn.others_cores}
    pair["counts"] = abs(first.others_cores - second.others_cores) <= UNEQUAL
    return pair


def cpu_per_step(turns: list[Turn], side: str, end_s: list[float]) -> float:
    """CPU time of the training process in all its turns, over the steps that ended in them."""
    own = [turn for turn in turns if turn.side == side]
    count = sum(turn.begin_s <= s <= turn.end_s for turn in own for s in end_s)
    return sum(turn.own_cpu_s for turn in own) / count


if __name__ == "__main__":
    sys.exit(main())
