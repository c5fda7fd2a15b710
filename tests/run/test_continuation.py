"""Runs that save, go on from a checkpoint or only score one; with the fake framework."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_samples import write_folder, write_mnist
from trainload.analyse import summarise_run
from trainload.checked import to_json
from trainload.errors import TrainloadError, UsageError
from trainload.record import load_manifest, open_run, parse_manifest
from trainload.run import (
    RunResult,
    execute_run,
    plan_continuation,
    plan_validation,
    prepare_request,
    request_continuation,
)
from trainload.workload import (
    Masking,
    assemble_workload,
    parse_words,
    recorded_workload,
    workload_from_record,
)

SMALL = ("frames_fraction=0.01", "batch_size=64")
FAST: dict[str, Any] = {"framework": "fake", "fake": {"step_s": 0.001}, "check_overhead": False}


def run_small(out: Path, *words: str, **options: Any) -> RunResult:
    request = prepare_request(
        "mlp", parse_words("mlp", [*SMALL, *words]), out=out, **{**FAST, **options}
    )
    return execute_run(request)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    out = tmp_path_factory.mktemp("saved")
    result = run_small(out, "epochs=3", "top=1,3", save=True, save_every=1)
    assert result.outcome == "completed", result.reason
    return result


@pytest.mark.alone
def test_the_record_lists_its_checkpoints_and_the_top_accuracies(saved: RunResult) -> None:
    listed = [(c.file, c.epoch) for c in saved.manifest.checkpoints]
    assert listed == [
        ("checkpoint-1.safetensors", 1),
        ("checkpoint-2.safetensors", 2),
        ("checkpoint.safetensors", 3),
    ]
    run = open_run(saved.path)
    assert {"validation_top1_accuracy", "validation_top3_accuracy"} <= set(run.epochs.columns)
    assert run.manifest.continues is None and run.manifest.task == "train"
    wait_s = summarise_run(run).input_wait_s
    assert wait_s is not None and 0 <= wait_s < 0.1


def test_a_continued_run_is_a_new_one_that_says_whose_it_is(
    saved: RunResult, tmp_path: Path
) -> None:
    planned = plan_continuation(saved.path / "checkpoint-2.safetensors", None, {"epochs": 4})
    assert planned.framework == "fake" and planned.workload.training.batch_size == 64
    result = execute_run(request_continuation(planned, out=tmp_path, **FAST))
    assert result.outcome == "completed" and result.path.parent == tmp_path
    continues = result.manifest.continues
    assert continues is not None and continues.run_id == saved.path.name
    assert (continues.epoch, continues.framework) == (2, "fake")
    run = open_run(result.path)
    assert run.epochs["epoch"].to_list() == [2, 3] and run.steps[
        "epoch"
    ].unique().sort().to_list() == [2, 3]
    assert run.steps["step"][0] == 0
    per_epoch = run.manifest.data.steps_per_epoch
    assert run.manifest.data.total_steps == 2 * per_epoch == run.steps.height
    assert continues.step == 2 * per_epoch
    assert run.manifest.workload.graph == saved.manifest.workload.graph


def test_scoring_leaves_a_run_that_trained_nothing(saved: RunResult, tmp_path: Path) -> None:
    planned = plan_validation(saved.path, top=(2,))
    result = execute_run(request_continuation(planned, out=tmp_path, validate_only=True, **FAST))
    assert result.outcome == "completed" and result.manifest.task == "validate"
    run = open_run(result.path)
    summary = summarise_run(run)
    assert summary.steps == 0 and summary.final is not None and summary.final.epoch == 2
    assert summary.final.validation["accuracy"] is not None
    assert "top2_accuracy" in summary.final.validation
    assert [phase.name for phase in run.manifest.phases][-1] == "validate"


def test_a_model_s_name_describes_the_training_anew(saved: RunResult, tmp_path: Path) -> None:
    alone = tmp_path / "alone.safetensors"
    alone.write_bytes((saved.path / "checkpoint.safetensors").read_bytes())
    with pytest.raises(UsageError, match="stands in no run directory: name the model"):
        plan_continuation(alone, None, {"epochs": 4})
    words = [*SMALL[:1], "batch_size=32", "epochs=4"]
    planned = plan_continuation(alone, "mlp", parse_words("mlp", words))
    assert planned.workload.training.batch_size == 32 and planned.checkpoint.epoch == 3


@pytest.mark.parametrize(
    ("model", "words", "options", "message"),
    [
        (None, [], {}, "has 3 epochs behind it; say with --epochs"),
        (None, ["epochs=3"], {}, "such as --epochs 6"),
        (None, ["epochs=4", "batch_size=8"], {}, "--batch-size: the run that is continued decides"),
        (None, ["epochs=4"], {"seed": 3}, "--seed: the run that is continued decides"),
        ("mlp", ["epochs=4", "hidden_units=9"], {}, "does not fit this mlp"),
        ("train.py", [], {}, "a script resumes by itself"),
        (None, ["epochs=4"], {"arguments": ["--x"]}, "a script resumes by itself"),
    ],
)
def test_what_cannot_go_on_is_one_line(
    saved: RunResult, model: str | None, words: list[str], options: Any, message: str
) -> None:
    with pytest.raises(TrainloadError) as error:
        plan_continuation(saved.path, model, parse_words(model, words), **options)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_script_s_run_has_nothing_to_go_on_from(saved: RunResult, tmp_path: Path) -> None:
    copied = tmp_path / "run"
    copied.mkdir()
    document = json.loads((saved.path / "run.json").read_text())
    document["workload"] = {"model": "train.py", "script": {"path": "train.py"}}
    (copied / "run.json").write_text(json.dumps(document))
    (copied / "checkpoint.safetensors").write_bytes(
        (saved.path / "checkpoint.safetensors").read_bytes()
    )
    with pytest.raises(TrainloadError, match="is no run of a built-in model"):
        plan_continuation(copied, None, {"epochs": 9})
    assert load_manifest(copied).model_name == "train.py"


def test_jax_has_no_loader_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="jax has no loader of its own; use cache"):
        prepare_request("mlp", parse_words("mlp", ["loader=native"]), out=tmp_path, framework="jax")


def test_every_kind_of_data_comes_back_from_its_record(tmp_path: Path) -> None:
    table = tmp_path / "poses.csv"
    table.write_text("a,b,label\n1,2,x\n3,4,y\n")
    cache = {"cache": str(tmp_path / "cache")}
    workloads = [
        assemble_workload("mlp", {}),
        assemble_workload("mlp", {"data": str(table)}),
        assemble_workload("lenet5", {"data": str(write_mnist(tmp_path / "mnist")), **cache}),
        assemble_workload(
            "lenet5",
            {"data": str(write_folder(tmp_path / "f")), "image_channels": 3, **cache},
        ),
        assemble_workload("lstm_lm", {"vocabulary": 40}),
    ]
    for workload in workloads:
        document = json.loads(
            json.dumps({"format": 1, "workload": to_json(recorded_workload(workload, Masking()))})
        )
        read = parse_manifest(json.dumps(document), "run.json")
        folder = cache["cache"]
        assert workload_from_record(read.workload, "run.json", folder) == workload
    document["workload"]["seeds"] = "none"
    read = parse_manifest(json.dumps(document), "run.json")
    with pytest.raises(TrainloadError, match="the recorded workload has no sound seeds"):
        workload_from_record(read.workload, "run.json")


def test_cost_is_summed_over_the_runs_that_one_continues(tmp_path: Path) -> None:
    first = run_small(tmp_path, "epochs=1", save=True)
    second = execute_run(
        request_continuation(
            plan_continuation(first.path, None, {"epochs": 2}), out=tmp_path, save=True, **FAST
        )
    )
    third = execute_run(
        request_continuation(
            plan_continuation(second.path, None, {"epochs": 3}), out=tmp_path, **FAST
        )
    )
    runs = [open_run(result.path) for result in (first, second, third)]
    assert summarise_run(runs[0]).course is None
    course = summarise_run(runs[2]).course
    assert course is not None and course.runs == 3 and course.missing is None
    assert course.steps == sum(run.steps.height for run in runs)
    assert course.training_s == pytest.approx(sum(run.steps["step_s"].sum() for run in runs))
    # A run that is no longer there is named, and the sums are of what is.
    first.path.rename(tmp_path / "elsewhere")
    found = summarise_run(open_run(third.path)).course
    assert found is not None and found.runs == 2 and found.missing == first.path.name
