"""Whole runs with the fake framework: every ending is an outcome and leaves a readable record."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import trainload
from chaos_parts.kills import find_child
from data_samples import write_mnist
from trainload.analyse import summarise_run
from trainload.errors import RecordError, UsageError
from trainload.record import AskedSetting, layout, load_manifest, open_run
from trainload.run import execute_run, prepare_request, render_progress
from trainload.workload import parse_words

SMALL = ("frames_fraction=0.01", "batch_size=16")


def request(tmp_path, *words, **options):
    fake = options.pop("fake", {"step_s": 0.005})
    return prepare_request(
        "mlp",
        parse_words("mlp", [*SMALL, *words]),
        out=tmp_path / "runs",
        framework="fake",
        fake=fake,
        **options,
    )


@pytest.mark.alone
def test_a_run_completes_and_reads_back(tmp_path):
    seen = []
    result = execute_run(request(tmp_path, "epochs=3"), seen.append)
    assert result.outcome == "completed" and result.reason is None
    run = open_run(result.path)
    assert run.manifest.training_completed
    total = run.manifest.data.total_steps
    assert run.steps["step"].to_list() == list(range(total))
    assert run.epochs.height == 3
    assert run.samples.height >= 5
    assert run.samples["t_s"].is_sorted() and run.samples["tick"].diff().drop_nulls().min() >= 1
    assert run.manifest.sampler.samples == run.samples.height
    assert run.manifest.sampler.missed <= 3
    setting = run.manifest.setting
    assert setting.obtained.cores == setting.resolved.cores
    assert any(q.provenance == "measured" for m in run.manifest.meters for q in m.quantities)
    assert seen and "step" in render_progress(seen[-1])
    assert not list(result.path.glob(".*"))
    memory = run.manifest.memory
    assert memory.peak_rss_bytes is None or (
        memory.peak_rss_bytes >= memory.start_rss_bytes > 1 << 20
    )


@pytest.mark.alone
def test_the_overhead_is_measured_in_the_run(tmp_path):
    result = execute_run(request(tmp_path, "epochs=42", fake={"step_s": 0.005}))
    overhead = result.manifest.overhead
    assert overhead.verdict in ("resolved", "not_resolvable")
    assert overhead.observations >= 6 and overhead.low < overhead.high
    assert 0.5 < overhead.ratio < 2
    run = open_run(result.path)
    for block in overhead.blocks[:3]:
        inside = run.samples.filter(
            (run.samples["t_s"] > block.start_s) & (run.samples["t_s"] < block.end_s)
        )
        assert inside.height == 0


def test_the_overhead_check_can_be_switched_off(tmp_path):
    result = execute_run(request(tmp_path, "epochs=2", check_overhead=False))
    assert result.manifest.overhead.verdict == "not_measured"
    assert "switched off" in result.manifest.overhead.reason


@pytest.mark.parametrize(
    ("fake", "outcome", "words"),
    [
        ({"step_s": 0.002, "crash_at_step": 5}, "failed", "step 5"),
        ({"step_s": 0.002, "segfault_at_step": 5}, "failed", "SIGSEGV"),
        ({"step_s": 0.002, "exhaust_memory_at_step": 5}, "out_of_memory", ""),
    ],
)
def test_bad_endings_are_outcomes(tmp_path, fake, outcome, words):
    result = execute_run(request(tmp_path, "epochs=2", fake=fake))
    assert result.outcome == outcome and words in result.reason
    run = open_run(result.path)
    assert run.manifest.outcome == outcome and not run.manifest.training_completed


def test_garbage_on_stdout_lands_in_the_log_alone(tmp_path):
    fake = {"step_s": 0.002, "print_garbage": True}
    result = execute_run(request(tmp_path, "epochs=2", fake=fake))
    assert result.outcome == "completed"
    assert (result.path / layout.WORKER_LOG).stat().st_size > 1000
    assert isinstance(open_run(result.path).worker_log_tail(), str)


@pytest.mark.alone
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_hanging_worker_times_out(tmp_path, stubborn, monkeypatch):
    monkeypatch.setattr("trainload.run.driver.TIMEOUT_GRACE_S", 0.5)
    fake = {"step_s": 0.002, "hang_at_step": 400, "stubborn": stubborn}
    start_s = time.monotonic()
    result = execute_run(request(tmp_path, "epochs=50", fake=fake, timeout_s=2.5))
    assert result.outcome == "timed_out" and "2.5 s" in result.reason
    assert time.monotonic() - start_s < 15
    assert open_run(result.path).steps.height >= 1


def test_a_diverging_loss_is_a_warning(tmp_path):
    fake = {"step_s": 0.002, "nan_at_step": 4}
    result = execute_run(request(tmp_path, "epochs=1", fake=fake))
    assert result.outcome == "completed"
    run = open_run(result.path)
    assert any("not finite in 1 of" in w for w in summarise_run(run).warnings)
    assert run.steps["loss"].to_list()[4] is None


def test_a_clock_set_back_is_a_warning_and_durations_stay_right(tmp_path):
    jumps = iter([2.0e9, 2.0e9])
    result = execute_run(
        request(tmp_path, "epochs=1"), wall_clock=lambda: next(jumps, 2.0e9 - 7200.0)
    )
    assert result.outcome == "completed"
    run = open_run(result.path)
    assert any("the wall clock moved by -2 h" in w for w in summarise_run(run).warnings)
    clock = result.manifest.clock
    assert 0 < clock.end_s - clock.start_s < 120
    assert run.steps["step_s"].min() > 0


def test_runs_started_at_the_same_moment_do_not_meet(tmp_path):
    barrier = threading.Barrier(2)

    def one(_):
        barrier.wait()
        return execute_run(request(tmp_path, "epochs=1"))

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(one, range(2))
    assert first.path != second.path
    assert {first.outcome, second.outcome} == {"completed"}
    assert open_run(first.path).steps.height == open_run(second.path).steps.height > 0


def test_a_setting_is_obtained(tmp_path):
    core = sorted(os.sched_getaffinity(0))[-1]
    result = execute_run(request(tmp_path, "epochs=1", setting=f"cpu{core}", threads=1))
    setting = result.manifest.setting
    assert setting.asked == AskedSetting(setting=f"cpu{core}", threads=1)
    assert setting.obtained.cores == (core,) and setting.obtained.threads == 1


def test_an_interpreter_that_cannot_start_is_a_failed_run(tmp_path):
    result = execute_run(request(tmp_path, "epochs=1", python="/nowhere/python"))
    assert result.outcome == "failed" and "cannot start" in result.reason
    assert open_run(result.path).steps.height == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few hundred kilobytes; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=420k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no mount command here")
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill_up(folder):
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                pass
        except OSError:
            return


@pytest.mark.alone
def test_a_disk_that_fills_up_does_not_stop_the_training(small_disk):
    wanted = prepare_request(
        "mlp", {"frames_fraction": 0.02, "batch_size": 16, "epochs": 12}, out=small_disk,
        framework="fake", fake={"step_s": 0.002},
    )  # fmt: skip
    filler = threading.Timer(1.6, fill_up, [small_disk])
    filler.start()
    result = execute_run(wanted)
    filler.join()
    assert result.outcome == "failed" and "could not be written" in result.reason
    back = load_manifest(result.path)
    assert back.outcome == "failed"
    run = open_run(result.path, seal=False)
    assert run.steps.height > 0 and run.samples.height > 0


def test_a_disk_too_small_to_begin_on_is_refused_and_left_clean(small_disk):
    (small_disk / "full").write_bytes(b"x" * 300_000)
    wanted = prepare_request("mlp", parse_words("mlp", SMALL), out=small_disk, framework="fake")
    with pytest.raises(RecordError, match="No space left on device; free some space"):
        execute_run(wanted)
    assert [p.name for p in small_disk.iterdir()] == ["full"]


def test_a_record_that_cannot_be_sealed_is_the_run_s_all_the_same(tmp_path):
    def block(_progress):
        for path in tmp_path.glob("*/run.json"):
            (path.parent / layout.STEPS_TABLE).mkdir(exist_ok=True)

    run = trainload.run(
        "mlp", frames_fraction=0.01, batch_size=16, epochs=3, framework="fake", out=tmp_path,
        fake={"step_s": 0.005}, show=block,
    )  # fmt: skip
    assert run.outcome == "completed" and not run.manifest.sealed
    assert run.steps.height == run.manifest.data.total_steps


def test_wrong_rates_and_timeouts(tmp_path):
    for options in ({"rate_hz": 0.5}, {"rate_hz": 101}, {"timeout_s": 0}, {"timeout_s": math.nan}):
        with pytest.raises(UsageError, match="must"):
            request(tmp_path, **options)


DRIVER = """
import json, sys
from pathlib import Path
from trainload.run import execute_run, prepare_request
request = prepare_request("mlp", {"frames_fraction": 0.01, "batch_size": 16, "epochs": 1000},
    out=Path(sys.argv[1]), framework="fake", fake=json.loads(sys.argv[2]))
result = execute_run(request)
print(result.outcome, "|", result.reason)
"""


def start_driver(tmp_path, fake):
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "runs"), json.dumps(fake)],
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        found = list((tmp_path / "runs").glob("*/events.jsonl"))
        if found and b'"steps"' in found[0].read_bytes():
            return process, found[0].parent
        time.sleep(0.05)
    process.kill()
    process.communicate()
    raise AssertionError("the run did not begin")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_the_driver_leave_a_readable_record(tmp_path, number):
    process, path = start_driver(tmp_path, {"step_s": 0.005})
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert output.startswith("interrupted |")
    run = open_run(path)
    assert run.manifest.outcome == "interrupted" and run.steps.height > 0
    assert not run.manifest.training_completed


@pytest.mark.alone
def test_a_second_interrupt_ends_a_stubborn_worker_at_once(tmp_path):
    fake = {"step_s": 0.005, "hang_at_step": 200, "stubborn": True}
    process, path = start_driver(tmp_path, fake)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=8)
    assert output.startswith("interrupted |")
    assert load_manifest(path).outcome == "interrupted"


def test_a_killed_driver_takes_its_children_along(tmp_path):
    process, path = start_driver(tmp_path, {"step_s": 0.005})
    driver = load_manifest(path).driver
    process.kill()
    process.communicate()
    run = open_run(path)
    assert run.manifest.outcome == "killed"
    for _ in range(100):
        if not os.path.exists(f"/proc/{driver.worker_pid}"):
            break
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{driver.worker_pid}")


def test_a_sampler_that_cannot_start_fails_the_run_in_good_order(tmp_path, monkeypatch):
    monkeypatch.setattr("trainload.run.workers.processes._SAMPLER_BOOTSTRAP", "raise SystemExit(3)")
    result = execute_run(request(tmp_path, "epochs=1"))
    assert result.outcome == "failed" and "the sampler did not start" in result.reason
    assert load_manifest(result.path).outcome == "failed"


def test_a_sampler_that_cannot_be_replaced_does_not_stop_the_training(tmp_path, monkeypatch):
    def kill_and_break(progress):
        if progress.step and not seen:
            seen.append(progress)
            monkeypatch.setattr(
                "trainload.run.workers.processes._SAMPLER_BOOTSTRAP", "raise SystemExit(3)"
            )
            os.kill(find_child(os.getpid(), "sampler"), signal.SIGKILL)

    seen = []
    result = execute_run(request(tmp_path, "epochs=12"), kill_and_break)
    assert seen and result.outcome == "killed" and result.manifest.training_completed
    assert any("goes on unmeasured" in w for w in result.manifest.warnings)
    assert open_run(result.path).samples.height == result.manifest.sampler.samples > 0


def test_a_watcher_that_goes_away_does_not_stop_the_training(tmp_path):
    def broken(_progress):
        raise BrokenPipeError(32, "Broken pipe")

    result = execute_run(request(tmp_path, "epochs=3"), broken)
    assert result.outcome == "completed"
    assert any("progress could not be shown" in w for w in result.manifest.warnings)


def test_a_mistake_of_our_own_is_in_the_record_before_it_is_raised(tmp_path):
    def buggy(_progress):
        raise KeyError("our bug")

    with pytest.raises(KeyError, match="our bug"):
        execute_run(request(tmp_path, "epochs=300"), buggy)
    manifest = load_manifest(next((tmp_path / "runs").iterdir()))
    assert manifest.outcome == "failed" and "our bug" in manifest.outcome_reason


def test_files_of_the_current_folder_do_not_stand_in_for_the_standard_library(
    tmp_path, monkeypatch
):
    for name in ("random", "select", "csv", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the real one')")
    monkeypatch.chdir(tmp_path)
    assert execute_run(request(tmp_path, "epochs=1")).outcome == "completed"


def test_samples_of_a_killed_sampler_are_counted(tmp_path):
    killed = []

    def kill_once(progress):
        if progress.step and not killed:
            killed.append(find_child(os.getpid(), "sampler"))
            os.kill(killed[0], signal.SIGKILL)

    result = execute_run(request(tmp_path, "epochs=12"), kill_once)
    assert result.outcome == "killed" and result.manifest.training_completed
    sampler = result.manifest.sampler
    assert sampler.samples == open_run(result.path).samples.height
    assert sampler.restarts == 1 and 0 < sampler.loop_cpu_s < sampler.wall_s


@pytest.mark.parametrize("model", ["lstm_lm", "resnet18", "recurrent"])
def test_every_kind_of_example_runs_without_its_data_being_named(tmp_path, model):
    words = ["rows=50", "batch_size=8", "epochs=1"]
    words += ["image_height=32", "image_width=32", "classes=4"] if model == "resnet18" else []
    result = execute_run(
        prepare_request(
            model, parse_words(model, words), out=tmp_path, framework="fake", fake={"step_s": 0.001}
        )
    )
    assert result.outcome == "completed", result.reason
    assert result.manifest.workload.data.kind == "synthetic"
    assert result.manifest.data.train_rows == 40


def test_remote_images_are_fetched_then_cached(tmp_path):
    pytest.importorskip("fsspec", reason="needs fsspec")
    source, cache = write_mnist(tmp_path / "source"), tmp_path / "cache"
    words = [f"data=file://{source}", f"cache={cache}", "epochs=1"]
    made = [
        execute_run(
            prepare_request(
                "lenet5", parse_words("lenet5", words), out=tmp_path / "runs", framework="fake"
            )
        )
        for _ in range(2)
    ]
    assert [result.outcome for result in made] == ["completed"] * 2
    built = [result.manifest.data.cache.built_by_this_run for result in made]
    assert built == [True, False]
    assert made[0].manifest.workload.data.address == f"file://{source}"
    assert len(list((cache / "images").glob("*.images"))) == 1
