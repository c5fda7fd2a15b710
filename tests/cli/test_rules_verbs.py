"""`reproduce hardware-recommendations` and `detect --measure`, on figures that are there."""

import json
import re
import subprocess
import sys

import pytest

import trainload.api.measuring as measuring
from trainload.cli.app import run_app
from trainload.hardware.limits import MachineLimits, load_limits, save_limits
from trainload_worker.protocol.measure import LIMITS, PROGRAMS, Measured, Reading

RATES = Measured(
    "training-threads",
    "1/s",
    tuple(
        Reading({"network": network, "threads": threads}, (rate, 1.01 * rate, 1.02 * rate))
        for network, threads, rate in (
            ("small", "1", 10.0), ("small", "2", 10.0), ("large", "1", 10.0), ("large", "2", 19.0),
        )
    ),
)  # fmt: skip
FIGURES = MachineLimits(
    taken_at="2026-01-01", quick=False, facts={"cpu": "A CPU", "cores": "2"}, measured=(RATES,)
)


@pytest.fixture
def figures(tmp_path):
    path = tmp_path / "figures.json"
    save_limits(FIGURES, path)
    return path


@pytest.fixture
def requests(monkeypatch, tmp_path):
    """Nothing is measured: what was asked for is kept."""
    asked = []

    def measure(request, show=None):
        asked.append(request)
        return FIGURES

    monkeypatch.setattr(measuring, "measure_machine", measure)
    monkeypatch.setenv("TRAINLOAD_LIMITS", str(tmp_path / "own"))
    return asked


def test_a_file_from_elsewhere_is_judged(figures, tmp_path, capsys):
    page = tmp_path / "rules.html"
    words = ["reproduce", "hardware-recommendations", "--from", str(figures)]
    assert run_app([*words, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "holds" in text and "A CPU, 2 cores" in text and page.read_text().startswith("<!DOCTYPE")
    assert run_app([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    verdicts = {one["rule"]["id"]: one["verdict"] for one in document["rules"]}
    assert verdicts["many-cores"] == verdicts["cores-not-always"] == "holds"
    assert verdicts["itanium"] == "dated" and verdicts["tensor-cores"] == "cannot tell"
    assert document["measured"]["kind"] == "trainload limits"


@pytest.mark.parametrize(
    ("out", "file"),
    [("x.json", "x.json"), ("folder", "folder/hardware-recommendations-quick.json")],
)
def test_what_was_measured_is_kept_before_it_is_judged(requests, tmp_path, capsys, out, file):
    words = ["reproduce", "hardware-recommendations", "--quick", "--out", str(tmp_path / out), "-q"]
    assert run_app(words) == 0
    assert (
        load_limits(tmp_path / file) == FIGURES and str(tmp_path / file) in capsys.readouterr().out
    )
    assert tuple(requests[0].programs) == PROGRAMS and requests[0].quick


def test_detect_measures_and_keeps_the_limits(requests, tmp_path, capsys):
    assert run_app(["detect", "--measure", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (kept,) = (tmp_path / "own").iterdir()
    assert document["limits"]["path"] == str(kept) and load_limits(kept) == FIGURES
    assert tuple(requests[0].programs) == LIMITS and requests[0].limit_s < 60
    assert run_app(["detect", "--measure"]) == 0
    text = capsys.readouterr().out
    assert "what this machine reaches" in text and str(kept) in text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["hardware-recommendations", "--from", "none.json"], "cannot read none.json"),
        (["per-layer", "--from", "none.json"], "hardware-recommendations alone"),
        (["hardware-recommendation"], "did you mean 'hardware-recommendations'"),
    ],
)
def test_wrong_words_are_a_line(words, complaint, capsys):
    assert run_app(["reproduce", *words]) == 2
    said = capsys.readouterr().err
    assert re.search(complaint, said) and said.count("\n") == 1


def test_it_is_judged_where_the_libraries_of_reports_are_missing(figures):
    code = (
        "import sys\n"
        "for name in ('polars', 'scipy', 'plotly', 'numpy', 'torch'):\n"
        "    sys.modules[name] = None\n"
        "from trainload.cli.app import run_app\n"
        f"words = ['reproduce', 'hardware-recommendations', '--from', {str(figures)!r}]\n"
        "sys.exit(run_app(words))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "rules:" in done.stdout
