"""`trainload calibrate` on this machine's CPU, within a small limit of time."""

import json
from pathlib import Path

import pytest

from trainload.cli.app import run_app
from trainload.hardware.calibrations import find_calibration, load_calibration

pytestmark = pytest.mark.framework("torch")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_CALIBRATIONS", str(tmp_path / "own"))


def test_the_cpu_is_calibrated_and_its_file_is_found(capsys):
    pytest.importorskip("torch")
    assert run_app(["calibrate", "--device", "cpu", "--seconds", "3", "--anyway", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    made = find_calibration(said["device"])
    assert made is not None and made == load_calibration(Path(said["path"]))
    operations = {point.operation for point in made.points}
    assert {"linear", "conv"} <= operations
    assert all(point.dtype in ("float32", "bfloat16", "float16") for point in made.points)
    assert {"operation", "module", "backward", "optimizer"} <= set(made.dispatch_s)
    assert "tf32" in made.lacks and made.software["torch"] and "CPU" in made.source


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "tpu"], "write cpu, or cuda:0"),
        (["--seconds", "0"], "must lie between"),
        (["--python", "/no/such/python"], "no such interpreter"),
        (["--out", "/"], "name another file"),
        (["--out", "/dev/null/c.json"], "cannot write into /dev/null"),
    ],
)
def test_wrong_words_get_one_line(words, said, capsys):
    assert run_app(["calibrate", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_calibration_reads_as_a_table(capsys):
    from trainload.cli.calibrate import render_calibration
    from trainload.hardware.calibrations import Calibration, Point

    point = Point(
        operation="linear", dtype="float32", sizes={"m": 1}, flops=2e9, bytes=4.0, seconds=1e-3,
        power_w=300.0,
    )  # fmt: skip
    text = render_calibration(
        Calibration(
            device="h200", points=(point,), dispatch_s={"operation": 4e-6}, idle_w=80.0,
            taken_at="2026-11-15", software={}, source="a test", lacks=("tf32",), notes=("warm",),
        )
    )  # fmt: skip
    assert "h200: 1 points, 2026-11-15" in text
    assert "2 TFLOP/s" in text and "operation 4" in text
    assert "idle 80 W, 300 to 300 W of 1 points" in text
    assert "lacks: tf32" in text and "note: warm" in text


def test_a_device_says_whether_it_is_calibrated(capsys):
    from trainload.hardware.calibrations import Calibration, Point, save_calibration

    assert run_app(["devices", "core-i9-9900k"]) == 0
    assert "calibration: none" in capsys.readouterr().out
    point = Point(
        operation="linear", dtype="float32", sizes={"m": 1}, flops=2.0, bytes=4.0, seconds=1e-3
    )
    save_calibration(
        Calibration(
            device="core-i9-9900k", points=(point,), dispatch_s={}, idle_w=None,
            taken_at="2026-11-15", software={}, source="a test", lacks=("power",),
        )
    )  # fmt: skip
    assert run_app(["devices", "core-i9-9900k"]) == 0
    assert "calibration: 1 points, 2026-11-15, lacks power" in capsys.readouterr().out
