"""`trainload estimate` and `trainload devices` as a user meets them."""

import json
import re
import subprocess
import sys

import pytest


def trainload(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "trainload", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
    )


def shown(*arguments):
    done = trainload(*arguments)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_a_network_on_a_board():
    text = shown("estimate", "resnet152", "--batch", "4", "--device", "jetson-tx2")
    assert "one training step of 4 example(s), float32, adam" in text.splitlines()[0]
    assert "this does not show that it fits" in text and "a lower bound; not in it" in text
    assert "(an estimate by roofline, a bound)" in text
    assert "60,192,808" in text and "92.11 GFLOP" in text
    assert "the 10 layers with the most FLOPs, of 517" in text
    assert "T1 = Σ_μ Σ_i T(μ,i) = " in text and "give --samples" in text


def test_what_exceeds_the_device_does_not_fit():
    text = shown("estimate", "vgg16", "--batch", "128", "--device", "jetson-tx2", "--layers", "0")
    assert text.splitlines()[2].startswith("does not fit: a step needs at least ")
    found = json.loads(
        shown("estimate", "vgg16", "--batch", "128", "--device", "jetson-tx2", "--json")
    )
    assert found["memory"]["fits"] is False
    assert found["memory"]["bound_bytes"] > found["memory"]["device_bytes"]


def test_json_carries_every_layer_with_units_in_names():
    found = json.loads(
        shown("estimate", "alexnet", "--batch", "8", "--optimizer", "sgd", "--momentum", "0",
              "--precision", "bf16", "--device", "h200", "--samples", "1000", "--json")
    )  # fmt: skip
    assert found["origin"] == "estimate" and found["optimizer"] == {"name": "sgd", "momentum": 0}
    totals = found["totals"]
    for name, total in totals.items():
        if name != "intensity_flop_per_byte":
            assert total == sum(layer[name] for layer in found["layers"])
    assert found["memory"]["fits"] is None and found["memory"]["optimizer_bytes"] == 0
    assert found["time"]["peak"] == "bf16_flop_per_s" and found["time"]["step_s"] > 0
    assert found["study_r"]["redundancy"]["verdict"] == "cannot hold the sample"
    # 61,100,840 weights of 1000 × 150,528 numbers.
    assert found["study_r"]["redundancy"]["k1"] == pytest.approx(61_100_840 / 150_528_000)
    assert found["device"]["memory_bytes"]["source"]


def test_study_r_from_numbers_alone():
    arguments = ("estimate", "--samples", "80909", "--inputs", "75", "--outputs", "10")
    text = shown(*arguments, "--weights", "569354")
    # 80909·85 = 6,877,265; Adam: 3·569,354 = 1,708,062; the sum 9,154,681.
    assert "= 6,877,265 cells" in text and "N_na = 9,154,681 cells" in text
    assert "0.09383: the network cannot hold the whole sample exactly" in text
    assert "T1, T2: need the layers" in text
    found = json.loads(
        shown(*arguments, "--weights", "569354", "--variables", "7", "--cells-weight", "2",
              "--json")
    )  # fmt: skip
    cells = found["memory_cells"]
    assert cells["cells"] == 6_877_265 + 2 * 569_354 + 7
    assert "expression 1" in cells["source"] and cells["formula"].startswith("N_na")
    assert found["complexity"] is None


def test_the_numbers_of_a_graph_are_the_same():
    text = shown("estimate", "mlp", "--samples", "80909")
    assert "N_na = 9,154,681 cells" in text


def test_a_graph_from_a_file(tmp_path):
    from trainload.workload import MODELS, build_model

    path = tmp_path / "graph.json"
    path.write_text(json.dumps(build_model("lenet5", MODELS["lenet5"].options()).to_json()))
    text = shown("estimate", str(path), "--batch", "2")
    assert text == shown("estimate", "lenet5", "--batch", "2")


def test_a_device_of_the_users_own(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "memory_bytes": 2**29}))
    text = shown("estimate", "resnet50", "--device", str(path))
    assert "of the 512 MiB of mine" in text
    assert "time: no estimate: the entry of mine states no peak in float32" in text


def test_devices_are_listed_and_shown_with_sources():
    text = shown("devices")
    assert re.search(r"^jetson-tx2 +board +2017 +8 GiB +59\.7 GB/s +0\.6656", text, re.M)
    listed = json.loads(shown("devices", "--json"))["devices"]
    assert len(listed) >= 40
    one = shown("devices", "jetson tx2")
    assert "data sheet" in one and "no source states it" in one
    assert json.loads(shown("devices", "h200", "--json"))["name"] == "h200"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["estimate"], "name a model, or give study R's numbers as well: --samples, --inputs"),
        (["estimate", "resnet51"], "did you mean 'resnet50'|did you mean"),
        (["estimate", "mlp", "--optimizer", "adm"], "is not one of adam"),
        (["estimate", "mlp", "--precision", "fp8"], "unknown precision 'fp8'"),
        (["estimate", "mlp", "--momentum", "2"], "must be below 1"),
        (["estimate", "mlp", "--device", "a100"], "did you mean a100-"),
        (["estimate", "mlp", "--device", "./no.json"], "cannot read the device file"),
        (["estimate", "mlp", "--weights", "3"], "--weights: mlp has its own"),
        (["estimate", "mlp", "--samples", "0"], "samples must be at least 1"),
        (["estimate", "mlp", "--samples", "5", "--variables", "-1"], "variables must be at least"),
        (["estimate", "mlp", "--samples", "5", "--cells-datum", "nan"], "cells for each datum"),
        (["estimate", "mlp", "--batch", "0"], "Invalid value for '--batch'"),
        (["estimate", "./no.json"], "cannot read the graph"),
        (["estimate", "--batch", "4"], "name a model for this"),
        (["estimate", "--samples", "5", "--inputs", "3"], "numbers as well: --outputs, --weights"),
        (["devices", "h201"], "did you mean h200"),
    ],
)
def test_wrong_words_are_one_clear_line(arguments, words, tmp_path):
    done = trainload(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and re.search(words, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not done.stdout


def test_wrong_graphs_are_one_clear_line(tmp_path):
    for text, words in (("{", "is no JSON"), ("{}", "graph format None"), ("[]", "JSON object")):
        path = tmp_path / "graph.json"
        path.write_text(text)
        done = trainload("estimate", str(path))
        assert done.returncode == 2 and words in done.stderr
    path.write_text("{}")
    done = trainload("estimate", str(path), "--classes", "3")
    assert done.returncode == 2 and "is a finished graph" in done.stderr
