"""A built-in model in several processes: one record, whatever it continues and however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from living_processes import processes_of

from trainload.analyse import summarise_run
from trainload.errors import UsageError
from trainload.hardware import Accelerator
from trainload.record import open_run
from trainload.run import (
    RunRequest,
    RunResult,
    execute_run,
    plan_continuation,
    prepare_request,
    request_continuation,
)

pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

# 1,601 rows to train on: in the last of the 17 steps of an epoch one process has no row.
WORDS: dict[str, Any] = {
    "data": "synthetic",
    "rows": 2001,
    "batch_size": 100,
    "dropout": 0.0,
    "epochs": 2,
    "top": (1, 3),
}
SCORES = ("train_loss", "validation_loss", "validation_accuracy", "validation_f1_macro")
TOP = ("validation_f1_weighted", "validation_top1_accuracy", "validation_top3_accuracy")


def train(out: Path, processes: int, **options: Any) -> RunResult:
    request = prepare_request(
        "mlp", WORDS, out=out, processes=processes, check_overhead=False, **options
    )
    return completed(request)


def completed(request: RunRequest) -> RunResult:
    result = execute_run(request)
    words = open_run(result.path).worker_log_tail()
    assert result.outcome == "completed", (result.reason, words)
    return result


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    return train(tmp_path_factory.mktemp("alone"), 1, save=True, save_every=1)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    out = tmp_path_factory.mktemp("together")
    return train(out, 2, save=True, save_every=1, layer_budget=0.9)


def scores(result: RunResult, epoch: int) -> dict[str, float]:
    row = next(row for row in open_run(result.path).epochs.to_dicts() if row["epoch"] == epoch)
    return {name: row[name] for name in (*SCORES, *TOP)}


def test_losses_and_scores_are_those_of_one_process(alone: RunResult, together: RunResult) -> None:
    for epoch in range(2):
        assert scores(together, epoch) == pytest.approx(scores(alone, epoch), rel=1e-5)
    steps = [open_run(result.path).steps["loss"].to_list() for result in (alone, together)]
    assert len(steps[0]) == 34 and steps[1] == pytest.approx(steps[0], rel=1e-4)


def test_one_record_tells_of_all_processes(together: RunResult) -> None:
    run = open_run(together.path)
    manifest = run.manifest
    assert manifest.processes == 2 and manifest.training_completed and not manifest.warnings
    assert run.steps_of(1).height == run.steps.height == 34
    assert sorted(run.traces) == [0, 1], "both traced the same steps"
    assert [c.file for c in manifest.checkpoints] == [
        "checkpoint-1.safetensors",
        "checkpoint.safetensors",
    ]
    peaks = [rank.memory.peak_rss_bytes for rank in manifest.ranks]
    assert len(peaks) == 2 and all(peak is not None and peak > 5e7 for peak in peaks)
    resolved, obtained = manifest.setting.resolved, manifest.setting.obtained
    assert resolved is not None and obtained is not None
    assert obtained.cores == resolved.cores and obtained.threads == resolved.threads
    cores = [rank.obtained.cores for rank in manifest.ranks if rank.obtained is not None]
    assert not set(cores[0]) & set(cores[1]) and cores[0] + cores[1] == resolved.cores
    summary = summarise_run(run)
    median_s = summary.step_time.median_s
    assert median_s is not None and summary.examples_per_s is not None
    assert summary.examples_per_s * median_s == pytest.approx(100, rel=1e-3)


@pytest.mark.parametrize(("saved_by", "continued_by"), [(2, 2), (2, 1), (1, 2)])
def test_any_number_of_processes_goes_on_from_a_checkpoint(
    alone: RunResult, together: RunResult, tmp_path: Path, saved_by: int, continued_by: int
) -> None:
    saved = alone if saved_by == 1 else together
    place = saved.path / "checkpoint-1.safetensors"
    result = completed(
        request_continuation(
            plan_continuation(place, None, {}),
            out=tmp_path,
            processes=continued_by,
            check_overhead=False,
        )
    )
    run = open_run(result.path)
    assert run.manifest.continues is not None and run.manifest.processes == continued_by
    assert run.epochs["epoch"].to_list() == [1]
    assert scores(result, 1) == pytest.approx(scores(saved, 1), rel=1e-5)


def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    killed = []

    def kill_one(_progress: object) -> None:
        for path in () if killed else tmp_path.glob("*/events-r1.jsonl"):
            events = [json.loads(line) for line in path.read_text().splitlines()]
            if any(event["kind"] == "steps" for event in events):
                killed.append(next(e["pid"] for e in events if e["kind"] == "hello"))
                os.kill(killed[0], signal.SIGKILL)

    words = {**WORDS, "epochs": 100_000}
    request = prepare_request("mlp", words, out=tmp_path, processes=2, check_overhead=False)
    result = execute_run(request, kill_one)
    assert killed and (result.outcome, result.reason) == ("killed", "rank 1: killed by SIGKILL")
    assert open_run(result.path).steps.height > 0
    assert not processes_of(tmp_path)


DRIVER = """
import sys
from pathlib import Path
from trainload.run import execute_run, prepare_request
words = {"data": "synthetic", "rows": 2001, "batch_size": 100, "epochs": 100_000}
result = execute_run(prepare_request("mlp", words, processes=2, out=Path(sys.argv[1])))
print(result.outcome, "|", result.reason)
"""


def test_ctrl_c_ends_all_processes(tmp_path: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    deadline_s = time.monotonic() + 60
    while not any(b'"steps"' in p.read_bytes() for p in tmp_path.glob("*/events.jsonl")):
        assert time.monotonic() < deadline_s and driver.poll() is None
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    output, _ = driver.communicate(timeout=30)
    assert output.strip() == "interrupted | Ctrl-C"
    events = next(tmp_path.iterdir()) / "events-r1.jsonl"
    last = json.loads(events.read_text().splitlines()[-1])
    assert (last["kind"], last["outcome"]) == ("rank_end", "interrupted")
    assert not processes_of(tmp_path)


@pytest.mark.parametrize(
    ("words", "options", "complaint"),
    [
        ({}, {"processes": 65}, "must lie between 1 and 64"),
        ({}, {"framework": "jax"}, "jax trains a built-in model in one process; torch can"),
        ({"batch_size": 1}, {}, "a batch of 1 has too few examples for one each"),
        ({}, {"setting": "cpu0"}, "setting cpu0 has 1 cores; each process needs one of its own"),
        ({}, {"threads": 1}, "--threads 1 is of all processes together; give at least 2"),
    ],
)
def test_what_cannot_be_divided_is_one_line(
    tmp_path: Path, words: dict[str, Any], options: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        prepare_request("mlp", words, out=tmp_path / "runs", **{"processes": 2, **options})
    assert complaint in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("cards", [1, 3])
def test_each_process_has_an_accelerator_or_none_has(tmp_path: Path, cards: int) -> None:
    request = prepare_request("mlp", {}, out=tmp_path, processes=2)
    gpu = Accelerator(
        index=0, nvml_index=0, name="GPU", uuid="GPU-0", memory_bytes=None, driver=None
    )
    setting = replace(request.setting, text="cpu0-1+gpu0", accelerators=(gpu,) * cards)
    with pytest.raises(UsageError, match="choose 2, or none, as in --setting cpu0-1"):
        replace(request, setting=setting)
    assert replace(request, setting=replace(setting, accelerators=(gpu,) * 2)).processes == 2
