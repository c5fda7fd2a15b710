"""What watching a script costs, from outside: separate processes that take turns.

    python bench/layers_turns.py --cases mlp,lstm --rounds 8 --seconds 10 --out FILE.jsonl

Each round starts the same script plain, watched without layers and watched with layers, all at
once; when each has warmed up they train in turns of a fraction of a second, in changing order, and
everything else stands still: while one trains, the processes that watch the others are stopped. By
the script's own clock, device drained at the end of each turn. A machine whose speed changes from
second to second changes it for all of them alike, which processes that run one after the other
cannot tell from a cost. Prints ratios against the plain process of the same round: their trimmed
mean of logarithms with a 95 % interval; `outside` leaves out turns with a window in them, or in
those just before. Windows are more than a training in one piece would have, since the time in which
others train counts into the budget: totals are for layers_outside.py to tell. With --copies each
round has as many processes of each kind: on a GPU's host they differ among themselves by more than
what is looked for. `--conditions` names what takes turns:

plain, again        the script alone; in a second process
watched, layers     watched, without layers or with
plain+sampler       the plain process while the sampler of the watched one reads its meters
watched-sampler     the watched process while its sampler is stopped; layers-sampler likewise
"""

import argparse
import contextlib
import json
import math
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "bench")]
from layers_outside import GPU_CASES, SCRIPT, render, windows_of  # noqa: E402
from raw import load_figures  # noqa: E402

PROCESS_OF = {
    "plain": "plain",
    "again": "again",
    "watched": "watched",
    "layers": "layers",
    "plain+sampler": "plain",
    "watched-sampler": "watched",
    "layers-sampler": "layers",
}
SAMPLED_BY = {"watched": "watched", "layers": "layers", "plain+sampler": "watched"}
"""Whose sampler runs during a turn; all others are stopped."""
START_S = 120.0
BUDGET = 0.03
QUIET_STEPS = 12
"""Steps after a window that may still pay for it."""


class Trained:
    """One process of the script, told when to train; with all that watches it."""

    def __init__(self, case: str, variant: str, folder: Path, budget: float) -> None:
        self.variant, self.folder = variant, folder
        folder.mkdir()
        pipes = [folder / "go", folder / "done"]
        for pipe in pipes:
            os.mkfifo(pipe)
        # Open for both, so that neither side waits for the other to open it.
        self._go, self._done = (os.open(pipe, os.O_RDWR) for pipe in pipes)
        arguments = [case, "turns", *map(str, pipes)]
        command = [sys.executable, str(SCRIPT), *arguments]
        if variant in ("watched", "layers"):
            layers = ["--layers"] if variant == "layers" else ["--no-layers"]
            head = [sys.executable, "-m", "trainload.run", str(SCRIPT), *layers]
            head += ["--layer-budget", str(budget), "--out", str(folder / "runs")]
            command = [*head, "--", *arguments]
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            start_new_session=True,
        )
        self._watchers: list[psutil.Process] = []
        self._stopped = False
        self._text = b""

    def wait_until_ready(self) -> None:
        """The script has warmed up; from now on it is known who watches it."""
        self._read_line(START_S)
        family = psutil.Process(self._process.pid)
        everyone = [family, *family.children(recursive=True)]
        self._watchers = [one for one in everyone if not _has_open(one, self.folder / "go")]

    def train(self, steps: int) -> dict:
        """One turn."""
        os.write(self._go, f"{steps}\n".encode())
        return json.loads(self._read_line(START_S))

    def let_watch(self, allowed: bool) -> None:
        """Stops whatever watches this process, or lets it go on."""
        if allowed is self._stopped and self.variant in ("watched", "layers"):
            for one in self._watchers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(signal.SIGCONT if allowed else signal.SIGSTOP)
            self._stopped = not allowed

    def end(self) -> None:
        """Lets the script come to its end, and its record too."""
        self.let_watch(True)
        os.write(self._go, b"end\n")
        self._process.wait(START_S)

    def kill(self) -> None:
        """Whatever of it still runs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(self._process.pid)
            for one in [*family.children(recursive=True), family]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
        self._process.wait()
        os.close(self._go)
        os.close(self._done)
        self._log.close()

    def _read_line(self, seconds: float) -> str:
        end_s = time.monotonic() + seconds
        while b"\n" not in self._text:
            if select.select([self._done], [], [], 0.5)[0]:
                self._text += os.read(self._done, 65536)
            elif self._process.poll() is not None or time.monotonic() > end_s:
                said = (self.folder / "log").read_text()[-1500:]
                raise SystemExit(f"{self.variant} did not answer: {said}")
        line, _, self._text = self._text.partition(b"\n")
        return line.decode()


def _has_open(process: psutil.Process, path: Path) -> bool:
    """Whether this is the script itself, which holds its pipe."""
    try:
        links = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir()]
    except OSError:
        return False
    return str(path) in links


def run_round(case: str, options: argparse.Namespace) -> list[list[dict]]:
    """All processes of a round from start to end; of each copy one row for each condition."""
    conditions = options.conditions.split(",")
    kinds = dict.fromkeys(PROCESS_OF[condition] for condition in conditions)
    names = [(kind, copy) for copy in range(options.copies) for kind in kinds]
    with tempfile.TemporaryDirectory() as folder:
        budget = BUDGET / len(conditions) / options.copies
        trained = {
            name: Trained(case, name[0], Path(folder) / f"{name[0]}-{name[1]}", budget)
            for name in names
        }
        try:
            for one in trained.values():
                one.wait_until_ready()
            turns = _alternate(trained, conditions, options.seconds, options.turn)
            for one in trained.values():
                one.end()
            windows = {name: windows_of(one.folder / "runs")[0] for name, one in trained.items()}
        finally:
            for one in trained.values():
                one.kill()
    return [
        [
            {
                "case": case,
                "condition": condition,
                "steps": turns["steps"],
                "turns": turns[condition, copy],
                "windows": windows[PROCESS_OF[condition], copy],
            }
            for condition in conditions
        ]
        for copy in range(options.copies)
    ]


def _alternate(
    trained: dict[tuple[str, int], Trained],
    conditions: list[str],
    seconds: float,
    turn_s: float,
) -> dict:
    """Turns of each condition and copy: first step, loop and CPU seconds."""
    for one in trained.values():
        one.let_watch(False)
    done = dict.fromkeys(trained, 0)
    steps = 20
    # How many steps a turn has: the plain process decides, after one turn that does not count.
    for name, one in trained.items():
        took = one.train(steps)
        done[name] += steps
        if name == ("plain", 0):
            first_s = took["loop_s"]
    steps = max(2, round(steps * turn_s / first_s))
    copies = range(1 + max(copy for _, copy in trained))
    asked = [(condition, copy) for condition in conditions for copy in copies]
    turns: dict = {"steps": steps, **{one: [] for one in asked}}
    for _ in range(max(2, round(seconds / turn_s))):
        for condition, copy in random.sample(asked, len(asked)):
            name = PROCESS_OF[condition], copy
            sampled = SAMPLED_BY.get(condition), copy
            for other, one in trained.items():
                one.let_watch(other == sampled)
            took = trained[name].train(steps)
            turns[condition, copy].append([done[name], took["loop_s"], took["cpu_s"]])
            done[name] += steps
    return turns


def is_quiet(row: dict, first: int) -> bool:
    """Whether a turn has no window, nor follows one closely."""
    last = first + row["steps"]
    return all(last < begin or first > end + QUIET_STEPS for begin, end in row["windows"])


def summarise(rounds: list[list[dict]]) -> None:
    """Print the ratios of every case."""
    for case in dict.fromkeys(row["case"] for rows in rounds for row in rows):
        mine = [
            {row["condition"]: row for row in rows} for rows in rounds if rows[0]["case"] == case
        ]
        plain = [by["plain"] for by in mine]
        steps_s = [turn[1] / row["steps"] for row in plain for turn in row["turns"]]
        step_ms = statistics.median(steps_s) * 1e3
        length_s = statistics.median(sum(turn[1] for turn in row["turns"]) for row in plain)
        print(f"{case}: {len(mine)} rounds of {length_s:.1f} s, steps of {step_ms:.3f} ms")
        for condition in [name for name in mine[0] if name != "plain"]:
            pairs = [(by[condition], by["plain"]) for by in mine if condition in by]
            print(f"  {condition:16s} total {render([_ratio(a, b, 1) for a, b in pairs])}", end="")
            if any(row["windows"] for row, _ in pairs):
                outside = [_ratio(a, b, 1, quiet=True) for a, b in pairs]
                print(f"  outside {render(outside)}", end="")
            print(f"  CPU {render([_ratio(a, b, 2) for a, b in pairs])}", flush=True)


def _ratio(row: dict, plain: dict, column: int, quiet: bool = False) -> float:
    """Time of a row's turns over that of the plain process's in the same cycles."""
    both = [
        (mine[column], other[column])
        for mine, other in zip(row["turns"], plain["turns"], strict=True)
        if not quiet or is_quiet(row, mine[0])
    ]
    return math.fsum(a for a, _ in both) / math.fsum(b for _, b in both)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", default=GPU_CASES)
    parser.add_argument("--conditions", default="plain,layers")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each condition in a round")
    parser.add_argument("--copies", type=int, default=1, help="processes of each kind at once")
    parser.add_argument("--turn", type=float, default=0.3, help="seconds")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="begin no round after this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", help="names of kept rows to print, with commas between them")
    options = parser.parse_args()
    if options.rows is not None:
        summarise(
            [
                rows
                for name in options.rows.split(",")
                for rows in load_figures("layers_turns", name)
            ]
        )
        return
    began = time.monotonic()
    rounds: list[list[dict]] = []
    for _ in range(options.rounds):
        for case in options.cases.split(","):
            if time.monotonic() - began > options.limit_s:
                continue
            made = run_round(case, options)
            rounds += made
            if options.out is not None:
                with options.out.open("a") as file:
                    file.writelines(json.dumps(rows) + "\n" for rows in made)
    summarise(rounds)


if __name__ == "__main__":
    main()
