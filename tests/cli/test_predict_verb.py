"""`trainload predict` and `trainload.predict` as a user meets them."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import trainload
from trainload.errors import TrainloadError, UnknownHardware, UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
FIGURES = ("step_s", "examples_per_s", "power_w", "energy_j", "training_s", "training_energy_j")


@pytest.fixture(scope="module", autouse=True)
def own_folder(tmp_path_factory):
    """Nothing is kept in the user's folder, and no past run is found."""
    folder = tmp_path_factory.mktemp("predicting")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINLOAD_ESTIMATES", str(folder / "kept"))
        patch.chdir(folder)
        yield


def said(*words):
    command = [sys.executable, "-m", "trainload", "predict", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def ranked(own_folder):
    words = {"batch_size": 8, "examples": 1000, "epochs": 2, "classes": 10}
    return trainload.predict("resnet18", device=["t4", "p4", "v100-pcie-32gb"], **words)


@TORCH
def test_one_device_as_json():
    done = said("mlp", "--batch", "64", "--device", "t4", "--steps", "100", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for name in FIGURES:
        assert 0 < found["low"][name] <= found[name] <= found["high"][name], name
    assert found["level"] == 0.95 and found["tier"] == "datasheet"
    assert found["training_s"] == pytest.approx(100 * found["step_s"])
    assert found["memory"]["fits"] is True and found["layers"]
    assert found["nearest_calibrations"] == ["t4"] and found["missing"] is None
    assert found["money"]["usd"] > 0 or found["money"]["missing"]
    assert found["emission"]["missing"]


@TORCH
def test_several_devices_are_ranked_by_time(ranked):
    assert [one.device.name for one in ranked] == ["v100-pcie-32gb", "t4", "p4"]
    steps = [one.step_s.value for one in ranked]
    assert steps == sorted(steps)
    text = ranked.to_text()
    assert text.startswith("fits ") and "examples/s" in text and "datasheet" in text
    assert ranked.to_json()["devices"][0]["rank"] == 1
    assert ranked[0].length.steps == 250


@TORCH
def test_one_of_them_as_text(ranked):
    text = ranked[0].to_text(3)
    first, second, *_ = text.splitlines()
    assert first.startswith("fits: needs ") and second.endswith("on NVIDIA V100 PCIe 32 GB")
    assert "tier: datasheet" in text and "the 3 longest layers of" in text
    assert "device-bound" in text or "host-bound" in text


@TORCH
def test_all_of_them_as_a_page(ranked):
    text = ranked.to_html()
    assert text.startswith("<!DOCTYPE html>") and "<script>" not in text
    assert text.index("v100-pcie-32gb") < text.index(">p4<") and "tier: datasheet" in text
    odd = replace(ranked[0], title="<script>alert(1)</script>").to_html()
    assert "<script>" not in odd and "&lt;script&gt;" in odd
    without = replace(ranked[0], step=None, missing="no time").to_html()
    assert "no time is predicted: no time" in without


@TORCH
def test_what_is_missing_is_said():
    lacking = trainload.predict("mlp", device="t4", precision="bf16")
    assert lacking.step_s is None and "t4 states no peak in bf16" in lacking.missing
    assert "no time is predicted" in lacking.to_text()
    large = trainload.predict("vgg16", device="jetson-nano", batch_size=512)
    assert large.fits is False and large.step_s is None and "does not fit" in large.missing
    assert large.to_json()["step_s"] is None


@TORCH
def test_a_build_function_and_several_boards():
    text = str(EXAMPLES / "gpt2_build.py") + ":build"
    one = trainload.predict(text, device="h200", batch_size=2, precision="bf16", steps=10)
    many = trainload.predict(text, device="h200", batch_size=2, precision="bf16", steps=10, count=8)
    assert many.examples_per_s.value > 5 * one.examples_per_s.value
    assert many.step.exchange_s > 0 == one.step.exchange_s


@TORCH
def test_an_untraceable_loss_is_one_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "def build(batch):\n"
        "    model = torch.nn.Linear(4, 1)\n"
        "    def loss():\n"
        "        out = model(torch.ones(batch, 4)).sum()\n"
        "        return out if out > 1 else -out\n"
        "    return model, loss\n"
    )
    done = said(f"{file}:build", "--device", "t4")
    assert done.returncode == 2 and done.stdout == ""
    assert "Traceback" not in done.stderr and done.stderr.count("error:") == 1


def test_mistakes_are_one_line():
    with pytest.raises(UnknownHardware, match="no device 'nonesuch'"):
        trainload.predict("mlp", device="nonesuch")
    with pytest.raises(UsageError, match="unknown precision"):
        trainload.predict("mlp", device="t4", precision="fp8")
    with pytest.raises(UsageError, match="--epochs needs --examples"):
        trainload.predict("mlp", device="t4", epochs=3)
    with pytest.raises(UsageError, match="leave out"):
        trainload.predict("mlp", device="t4", steps=3, examples=3)
    with pytest.raises(UsageError, match="at least one device"):
        trainload.predict("mlp", device=[])
    with pytest.raises(TrainloadError):
        trainload.predict("mlp", device="t4", place="nowhere at all")
