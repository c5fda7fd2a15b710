"""A few hostile scripts by plain Python and under trainload; `make chaos` runs them all."""

import os
import resource
import subprocess
import sys

import pytest

from chaos_parts.scripts import QUIET, SCRIPTS, SHOWN, try_script
from chaos_parts.tally import Tally
from trainload.record import load_manifest

SAMPLE = (
    ("closerange_then_file", QUIET),
    ("dup2_over_all", SHOWN),
    ("exec_itself", QUIET),
    ("json_patched", QUIET),
    ("no_file_grows", QUIET),
    ("os_exit_zero", SHOWN),
    ("own_excepthook", SHOWN),
    ("pool_left_open", SHOWN),
    ("stdout_none", QUIET),
    ("surrogate_in_message", SHOWN),
    ("thread_outlives_main", SHOWN),
)
RUN = [sys.executable, "-m", "trainload", "run", "--framework", "fake", "--no-layers"]


@pytest.mark.parametrize(("name", "mode"), SAMPLE)
def test_a_script_ends_as_it_does_without_us(tmp_path, name, mode):
    tally = Tally(part="scripts")
    try_script(SCRIPTS / f"{name}.py", mode, tmp_path, tally)
    assert tally.complaints == []


def test_there_are_as_many_scripts_as_promised_and_each_says_what_it_does():
    texts = [path.read_bytes() for path in SCRIPTS.glob("*.py")]
    assert len(texts) >= 60 and all(text.startswith(b"# ") for text in texts)


def test_names_that_are_no_utf_8_are_kept_and_read_back(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    script = tmp_path / f"{name}.py"
    script.write_text("import sys\nraise ValueError(sys.argv[1])\n")
    words = [*RUN, "--out", str(tmp_path / name), str(script), "--", name]
    ended = subprocess.run(words, capture_output=True, check=False)
    assert ended.returncode == 1 and b"/trainload/" not in ended.stderr
    (run_dir,) = (tmp_path / name).iterdir()
    manifest = load_manifest(run_dir)
    assert manifest.outcome == "failed" and "ValueError: caf" in manifest.outcome_reason
    assert manifest.workload.script.arguments == (name,)
    page = tmp_path / f"{name}.html"
    for verb in (["show", "--json"], ["seal"], ["report", "--html", str(page)]):
        words = [sys.executable, "-m", "trainload", *verb, str(run_dir)]
        told = subprocess.run(words, capture_output=True, check=False)
        assert told.returncode == 0, told.stderr
    assert page.stat().st_size > 1000


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_reason_not_to_run(tmp_path, closed):
    script = tmp_path / "train.py"
    script.write_text("print('trained')\n")
    words = [*RUN, "--out", str(tmp_path / "runs"), str(script)]
    ended = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], check=False)
    (run_dir,) = (tmp_path / "runs").iterdir()
    assert ended.returncode == 0 and load_manifest(run_dir).outcome == "completed"
    assert (run_dir / "worker.log").read_text() == "trained\n"


def test_little_address_space_is_one_line(tmp_path):
    limit = (300 << 20, resource.getrlimit(resource.RLIMIT_AS)[1])
    ended = subprocess.run(
        [*RUN, "--out", str(tmp_path), "train.py"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    assert "ulimit -v" in ended.stderr


def test_secrets_reach_the_script_and_not_the_record(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys\nassert 'hunter22' in sys.argv\nraise ValueError(sys.argv[2])\n")
    words = [*RUN, "--out", str(tmp_path / "runs"), str(script), "--", "--password", "hunter22"]
    words += ["--data=https://me:s3cr3t-word@host/x?token=abcdef", "--epochs=3", "API_KEY=qwertz"]
    subprocess.run(words, capture_output=True, check=False)
    (run_dir,) = (tmp_path / "runs").iterdir()
    manifest, text = load_manifest(run_dir), (run_dir / "run.json").read_text()
    assert not [word for word in ("hunter22", "s3cr3t", "abcdef", "qwertz") if word in text]
    assert "--epochs=3" in manifest.workload.script.arguments
    assert manifest.workload.script.masked == 4 and "masked" in manifest.warnings[0]
    assert manifest.outcome_reason.startswith("ValueError: ***")
