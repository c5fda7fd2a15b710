"""One hour at 10 Hz and 60 columns: sealed and summarised, beside reading it line by line."""

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainload.analyse import summarise_run
from trainload.record import (
    SAMPLE_HEAD,
    Clock,
    LineAppender,
    Manifest,
    create_run_directory,
    layout,
    open_run,
    seal_run,
)
from trainload.record.parts import Phase
from trainload.workload import RecordedGraph

ROWS, METERED = 36000, 56
STEPS_PER_S = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seal_s, summary_s, naive_s = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        made = make_hour(Path(folder))
        for number in range(options.rounds):
            copy = made.with_name(f"copy{number}")
            shutil.copytree(made, copy)
            naive_s.append(timed(read_naively, copy))
            seal_s.append(timed(seal_run, copy))
            summary_s.append(timed(summarise, copy))
    results = {"seal_s": median(seal_s), "summary_s": median(summary_s)}
    print(
        f"  one hour, {ROWS} samples × {METERED + len(SAMPLE_HEAD)} columns, "
        f"{3600 * STEPS_PER_S} steps:\n"
        f"  sealed in {results['seal_s']:.2f} s, summarised in {results['summary_s']:.2f} s, "
        f"beside {median(naive_s):.2f} s for json.loads of each line "
        f"(seal / that = {results['seal_s'] / median(naive_s):.2f})"
    )
    if options.json:
        options.json.write_text(json.dumps({**results, "json_lines_s": median(naive_s)}) + "\n")


def make_hour(folder: Path) -> Path:
    draw = random.Random(1)
    columns = [f"meter{i}_load_fraction" for i in range(METERED)]
    clock = Clock(start_s=1000.0, start_wall_s=0.0)
    manifest = Manifest(
        created="2026-01-01T00:00:00+00:00", trainload_version="bench", framework="fake",
        workload=RecordedGraph(model="mlp", graph=None), clock=clock,
    )  # fmt: skip
    run = create_run_directory(folder, "hour", manifest)
    samples = LineAppender(run.path / layout.SAMPLES)
    samples.append({"columns": [*SAMPLE_HEAD, *columns]})
    for tick in range(ROWS):
        values = [round(draw.random(), 4) for _ in columns]
        samples.append([tick, round(1000 + tick / 10, 6), 0.0003, tick * 0.0004, *values])
    events = LineAppender(run.path / layout.EVENTS)
    events.append({"kind": "phase", "name": "train", "edge": "begin", "t_s": 1000.0})
    for half in range(7200):
        start_s = 1000 + half / 2
        count = STEPS_PER_S // 2
        ends = [round(start_s + 0.5 * (i + 1) / count, 6) for i in range(count)]
        events.append(
            {"kind": "steps", "epoch": half // 72, "first_step": half * count,
             "start_s": start_s, "end_s": ends, "loss": [round(draw.random(), 5) for _ in ends]}
        )  # fmt: skip
    events.append({"kind": "phase", "name": "train", "edge": "end", "t_s": 4600.0})
    closed = replace(
        run.manifest,
        outcome="completed",
        clock=replace(clock, end_s=4600.0, end_wall_s=3600.0),
        phases=(Phase(name="train", start_s=0.0, end_s=3600.0),),
    )
    run.close(closed)
    return run.path


def read_naively(path: Path) -> None:
    for name in (layout.SAMPLES, layout.EVENTS):
        with (path / name).open() as file:
            for line in file:
                json.loads(line)


def summarise(path: Path) -> None:
    summarise_run(open_run(path))


def timed(work: Callable[[Path], object], path: Path) -> float:
    start_s = time.perf_counter()
    work(path)
    return time.perf_counter() - start_s


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


if __name__ == "__main__":
    main()
