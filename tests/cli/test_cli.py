"""The command line as a user meets it: options frozen, wrong input in one line, exit statuses."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from trainload.cli.app import run_app

FAST = (
    "--framework",
    "fake",
    "--epochs",
    "1",
    "--set",
    "frames_fraction=0.005",
    "--batch-size",
    "16",
)
FAKE = ("--fake", '{"step_s": 0.002}')


def trainload(*arguments, timeout=120, **options):
    return subprocess.run(
        [sys.executable, "-m", "trainload", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


VERBS = {
    "run": {
        "--set", "--epochs", "--batch-size", "--optimizer", "--learning-rate", "--precision",
        "--data", "--cache", "--label-column", "--group-column", "--seed", "--setting", "--threads",
        "--loader", "--loader-workers", "--validate", "--top", "--save", "--save-every", "--resume",
        "--out",
        "--rate", "--timeout", "--tegrastats", "--framework", "--python", "--check-overhead",
        "--no-check-overhead", "--processes", "--layers", "--no-layers", "--layer-budget",
        "--quiet", "--live", "--serve", "--port", "--bind", "--json", "--help",
    },
    "live": {"--serve", "--port", "--bind", "--screen", "--no-screen", "--help"},
    "validate": {
        "--data", "--cache", "--top", "--setting", "--threads", "--out", "--timeout", "--framework",
        "--python", "--quiet", "--json", "--help",
    },
    "show": {
        "--loads", "--layers", "--energy", "--all", "--top", "--rank", "--prices", "--plain",
        "--json", "--help",
    },
    "seal": {"--json", "--help"},
    "report": {"--html", "--trace", "--csv", "--rank", "--json", "--help"},
    "collect": {
        "--out", "--pattern", "--pattern-file", "--config", "--force", "--json", "--help",
    },
    "models": {"--classes", "--input", "--batch", "--set", "--json", "--help"},
    "subset": {
        "--out", "--classes", "--class", "--per-class", "--validation-fraction", "--seed", "--link",
        "--manifest-only", "--force", "--json", "--help",
    },
    "estimate": {
        "--batch", "--optimizer", "--momentum", "--precision", "--device", "--script", "--target",
        "--counts", "--what-if", "--no-what-if", "--measure", "--out", "--limit-s", "--python",
        "--html", "--layers", "--classes", "--input", "--set", "--samples", "--inputs", "--outputs",
        "--weights", "--variables", "--cells-datum", "--cells-weight", "--cells-variable", "--json",
        "--help",
    },
    "book": {"--out", "--contribute", "--hide", "--json", "--help"},
    "dataflow": {
        "--published", "--batch", "--pes", "--registers", "--buffer", "--energy", "--classes",
        "--input", "--set", "--json", "--help",
    },
    "recommend": {
        "--examples", "--epochs", "--steps", "--batch", "--deadline", "--budget", "--max-power",
        "--candidates", "--objective", "--precision", "--optimizer", "--momentum", "--prices",
        "--spot", "--provider", "--region", "--script", "--limit-s", "--python", "--here", "--try",
        "--minutes", "--history", "--out", "--most", "--classes", "--input", "--set",
        "--html", "--json", "--help",
    },
    "scorecard": {"--truth", "--csv", "--html", "--json", "--help"},
    "devices": {"--links", "--json", "--help"},
    "calibrate": {
        "--device", "--seconds", "--out", "--anyway", "--python", "--json", "--help",
    },
    "env": {"--help"},
    "detect": {"--measure", "--json", "--help"},
    "doctor": {"--json", "--help"},
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_are_frozen_and_every_verb_has_an_example(verb):
    text = trainload(verb, "--help", env={**os.environ, "COLUMNS": "200"}).stdout
    options = text[text.index("Options:") : text.rindex("Example")]
    shown = {
        word
        for line in options.splitlines()
        if line.lstrip().startswith("-")
        for word in re.findall(r"(?<!\S)--[a-z-]+", re.split(r"  +", line.strip(), maxsplit=1)[0])
    }
    assert shown == VERBS[verb]
    assert f"trainload {verb}" in text[text.rindex("Example") :]


def test_help_lists_every_verb():
    text = trainload("--help").stdout
    assert all(verb in text for verb in VERBS)
    assert trainload("--version").stdout.startswith("trainload 0.")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli")
    done = trainload("run", "mlp", *FAST, *FAKE, "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_run_prints_json(finished):
    assert finished["outcome"] == "completed" and finished["summary"]["steps"] > 0


def test_show_seal_and_report(finished, tmp_path):
    path = finished["path"]
    shown = trainload("show", path)
    assert shown.returncode == 0 and "completed" in shown.stdout and "watching it" in shown.stdout
    assert json.loads(trainload("show", path, "--json").stdout)["outcome"] == "completed"
    assert json.loads(trainload("seal", path, "--json").stdout) == {path: "completed"}
    page = tmp_path / "report.html"
    made = trainload("report", path, path, "--html", str(page))
    assert made.stdout.strip() == str(page) and page.stat().st_size > 10**6
    assert json.loads(trainload("report", path, "--json").stdout)[0]["outcome"] == "completed"


def test_detect_names_the_machine_and_every_meter():
    found = json.loads(trainload("detect", "--json").stdout)
    names = {meter["name"] for meter in found["meters"]}
    assert {"host_cpu", "process_tree", "nvml", "rapl", "hwmon", "tegrastats"} <= names
    assert found["machine"]["logical_cores"] >= 1
    text = trainload("detect").stdout
    assert "rapl" in text and "host_cpu_load_fraction" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "mpl"], "unknown model 'mpl'; did you mean 'mlp'"),
        (["run", "alexnet", "--data", "keypoints"], "trains on images, and keypoints gives feat"),
        (["run", "lenet5", "--data", "mnist:/nowhere"], "no such folder: /nowhere"),
        (["run", "lenet5", "--data", "minst"], "did you mean 'mnist'"),
        (["run", "mlp", "--set", "rows=9"], "rows is for synthetic data"),
        (["run", "mlp", "--setting", "cpu0-999"], "is not available; this process may use cpu"),
        (["run", "mlp", "--setting", "cpu0+gpu7"], "no gpu7 here"),
        (["run", "mlp", "--set", "hiden_units=3"], "did you mean 'hidden_units'"),
        (["run", "mlp", "--rate", "1000"], "must lie between 1 and 100 Hz"),
        (["run", "mlp", "--timeout", "-1"], "must be above 0"),
        (["run", "mlp", "--batch-size", "1", "--processes", "2"], "raise --batch-size"),
        (["run", "mlp", "--processes", "65"], "Invalid value for '--processes'"),
        (["run", "mlp", "--timeout", "nan"], "must be above 0"),
        (["run", "mlp", "--group-column", "video"], "is for a table: give one with --data"),
        (["run", "mlp", "--epochs", "0"], "Invalid value for '--epochs'"),
        (["run", "mlp", "--epochs", "many"], "Invalid value for '--epochs'"),
        (["run", "mlp", "--data", "/nowhere.csv"], "no such table"),
        (["run", "mlp", "--framework", "caffe"], "no such framework; there are torch"),
        (["run", "mlp", "--python", "/nowhere/python"], "no such interpreter"),
        (["run", "mlp", "--tegrastats", "/nowhere"], "no such program or file"),
        (["run", "mlp", "--fake", "{"], "no JSON"),
        (["run"], "name a model or a script, or a run to continue with --resume"),
        (["run", "--resume", "/nowhere"], "no such run or checkpoint: /nowhere"),
        (["run", "--resume", "/etc/hostname"], "no safetensors file"),
        (["run", "mlp", "--top", "1,50"], "--top 50: mlp tells 10 classes apart"),
        (["run", "mlp", "--validate", "often"], "is not one of epoch, end, never"),
        (["run", "mlp", "--loader", "own"], "is not one of cache, native"),
        (["validate", "/nowhere"], "no such run or checkpoint"),
        (["validate", "/"], "is no run directory"),
        (["run", "mlp", "--nope"], "No such option"),
        (["shwo", "x"], "No such command"),
        (["show", "/nowhere"], "no such run"),
        (["show", "/"], "is no run directory"),
        (["seal", "/nowhere"], "no such run|cannot open"),
        (["report", "/nowhere"], "no such run"),
        (["run", "mlp", *FAST, "--out", "/dev/null/runs"], "choose another with --out"),
    ],
)
def test_wrong_input_is_one_clear_line_and_status_2(
    arguments, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    status = run_app(arguments)
    said = capsys.readouterr()
    assert status == 2, said.out + said.err
    assert re.search(words, said.err), said.err
    assert len(said.err.strip().splitlines()) == 1 and "Traceback" not in said.err
    assert not list(tmp_path.iterdir())


def test_a_process_ends_with_that_line_and_status_too(tmp_path):
    done = trainload("run", "mpl", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "did you mean 'mlp'" in done.stderr


def test_a_run_that_ends_otherwise_has_status_1(tmp_path):
    done = trainload("run", "mlp", *FAST, "--fake", '{"crash_at_step": 2}', "--out", str(tmp_path))
    assert done.returncode == 1
    assert "outcome: failed: " in done.stdout and "step 2" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_an_unwritable_report_is_one_line(finished):
    done = trainload("report", finished["path"], "--html", "/nowhere/at/all.html")
    assert done.returncode == 2 and done.stderr.startswith("error: cannot write")


def test_ctrl_c_leaves_a_readable_record_and_says_so(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "trainload", "run", "mlp", "--framework", "fake", "--epochs",
         "100000", "--set", "frames_fraction=0.005", *FAKE, "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while not list(tmp_path.glob("*/events.jsonl")) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "outcome: interrupted: Ctrl-C" in output and "Traceback" not in errors
    run = next(tmp_path.iterdir())
    assert trainload("show", str(run)).returncode == 0


def test_the_bare_door_needs_no_command_line_library(tmp_path):
    blocked = (
        "import sys\n"
        "for name in ('typer', 'rich', 'click', 'polars', 'plotly', 'numpy', 'pynvml'):\n"
        "    sys.modules[name] = None\n"
        "import runpy\n"
        "sys.argv = ['run', *sys.argv[1:]]\n"
        "runpy.run_module('trainload.run', run_name='__main__')\n"
    )
    wrong = subprocess.run(
        [sys.executable, "-c", blocked, "mpl"], capture_output=True, text=True, timeout=60
    )
    assert wrong.returncode == 2 and "did you mean 'mlp'" in wrong.stderr
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", blocked, "mlp", "--set", "epochs=1", "--set",
         "frames_fraction=0.01", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome, path = done.stdout.split()
    assert outcome == "completed"
    assert "completed" in trainload("show", path).stdout


def test_without_arguments_the_help_is_shown():
    done = trainload()
    assert done.returncode == 0 and "Commands:" in done.stdout and not done.stderr


def test_what_is_no_run_is_named_and_the_rest_is_done(finished, tmp_path):
    page = tmp_path / "r.html"
    made = trainload("report", finished["path"], str(tmp_path), "--html", str(page))
    assert made.returncode == 2 and "is no run directory" in made.stderr and page.exists()
    sealed = trainload("seal", "/nowhere", finished["path"])
    assert sealed.returncode == 2 and "sealed, completed" in sealed.stdout
    assert len(sealed.stderr.splitlines()) == 1


def test_a_page_that_cannot_be_put_in_place_leaves_nothing_behind(finished, tmp_path):
    (tmp_path / "taken").mkdir()
    done = trainload("report", finished["path"], "--html", str(tmp_path / "taken"))
    assert done.returncode == 2 and "cannot write" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_a_terminal_without_utf_8_still_gets_its_lines(finished):
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-m", "trainload", "show", finished["path"]],
        capture_output=True, env=env, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and b"completed" in done.stdout and not done.stderr


def test_two_interrupts_still_say_how_the_run_ended(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "trainload", "run", "mlp", "--framework", "fake", "--epochs",
         "100000", "--set", "frames_fraction=0.005", *FAKE, "--out", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while not list(tmp_path.glob("*/events.jsonl")) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert "interrupted" in output + errors and "Traceback" not in errors
    assert process.returncode in (1, 130)


def test_a_missing_command_line_library_is_one_line():
    code = "import sys; sys.modules['typer'] = None; from trainload.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install typer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
