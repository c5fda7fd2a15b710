"""A shipped study run again: its runs become verdicts, an absent nvidia-smi an open question."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainload.study
from trainload.api import reproducing
from trainload.api.reproducing import reproduce
from trainload.cli.app import run_app
from trainload.report.reproduce import render_reproduction, render_reproduction_html
from trainload.study import load_study

SCRIPT = Path(trainload.study.__file__).parent / "shipped" / "in_loop_monitor.py"

# A factor of the shipped study on the framework for tests: nothing is trained, all else is real.
FAKE = """\
name: fake
workload: {model: mlp, framework: fake, epochs: 1, max_steps: 4, check_overhead: false,
  fake: {step_s: 0.01}}
factors:
  hidden_blocks: [3, 2, 5]
repetitions: 1
cool_down: false
other_load: false
quick: {retries: 0}
"""
RUN_STUDY = reproducing.run_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The study's place: run by the first test, found finished by the others."""
    return tmp_path_factory.mktemp("fake")


@pytest.fixture
def studies(monkeypatch, folder):
    """Names of shipped studies lead to a small one of the framework for tests."""

    def run_fake(_what, **options):
        path = folder / "fake.yaml"
        path.write_text(FAKE)
        return RUN_STUDY(path, **options)

    monkeypatch.setattr(reproducing, "run_study", run_fake)
    return folder / "studies"


@pytest.fixture
def no_monitor(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_a_study_is_run_judged_and_resumed(studies, no_monitor, capsys):
    page = studies.parent / "page.html"
    words = ["reproduce", "load-analysis", "--quick", "--out", str(studies)]
    assert run_app([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "load-analysis" and told["ended_by"] == ["finished"]
    assert {one["verdict"] for one in told["claims"]} == {"cannot tell"}
    assert told["observer"]["reason"] == "this machine has no nvidia-smi"
    by_id = {one["claim"]["id"]: one for one in told["claims"]}
    assert by_id["depth-time"]["compared"][0]["reading"]["runs"] == 2
    assert by_id["optimizer-sgd"]["reason"] == "the study has no factor optimizer"
    runs = sorted((studies / "fake-quick" / "runs").iterdir())
    assert len(runs) == 3
    assert run_app([*words, "--html", str(page)]) == 0  # goes on: nothing is run twice
    assert sorted((studies / "fake-quick" / "runs").iterdir()) == runs
    said = capsys.readouterr().out
    assert "cannot tell: this machine has no nvidia-smi" in said
    assert "this machine confirms 0, contradicts 0, cannot tell 22" in said
    text = page.read_text()
    assert "published time (s)" in text and "3,426" in text and "<script" not in text


def test_an_interrupted_study_says_how_it_goes_on(studies, no_monitor, monkeypatch, capsys):
    whole = reproducing.run_study

    def interrupted(what, **options):
        session = whole(what, **options)
        result = type(session.result)(ended_by="interrupted", ran=3, state=session.result.state)
        return type(session)(
            path=session.path, plan=session.plan, result=result, status=session.status
        )

    monkeypatch.setattr(reproducing, "run_study", interrupted)
    monkeypatch.setattr(reproducing.shutil, "which", lambda _name: "/bin/true")
    found = reproduce("load-analysis", quick=True, out=studies)
    assert not found.whole and found.observed.reason == "the study was interrupted before it"
    assert len(found.sessions) == 1  # the observer's study was not begun
    assert run_app(["reproduce", "load-analysis", "--quick", "-q", "--out", str(studies)]) == 1
    assert "the same command goes on" in capsys.readouterr().err


def test_other_studies_have_no_observer(studies, no_monitor):
    found = reproduce("edge-evaluation", quick=True, out=studies)
    assert found.observed is None and found.tables[0].columns[0] == "model"
    assert "Claims" in render_reproduction_html(found) and render_reproduction(found)


def test_a_study_without_claims_is_named_with_those_that_have_some(capsys):
    assert run_app(["reproduce", "load-analisys"]) == 2
    said = capsys.readouterr().err
    assert "did you mean 'load-analysis'" in said and "edge-evaluation" in said


def test_the_observers_study_finds_its_script():
    study = load_study("in-loop-monitor", quick=True)
    assert Path(study.keys.workload["script"]) == SCRIPT


@pytest.mark.framework("torch")
def test_the_monitor_is_started_twice_every_quarter_batch(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    calls = tmp_path / "calls"
    fake = tmp_path / "nvidia-smi"
    fake.write_text(f"#!/bin/sh\necho call >> {calls}\n")
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    words = ["--batch-size", "8", "--rows", "40", "--epochs", "1", "--monitor", "in-loop"]
    done = subprocess.run(
        [sys.executable, SCRIPT, *words],
        env=environment, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("epoch 1: ")
    assert calls.read_text().count("call") == 6  # twice at iterations 0, 2 and 4 of five
