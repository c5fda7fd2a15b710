"""`trainload estimate` and `trainload devices` as a user meets them."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")


def trainload(*arguments, cwd=None, env=None):
    return subprocess.run(
        [sys.executable, "-m", "trainload", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )


def shown(*arguments):
    done = trainload(*arguments)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def test_a_network_on_a_board():
    text = shown("estimate", "resnet152", "--batch", "4", "--device", "jetson-tx2", "--counts")
    first, second, third, *_ = text.splitlines()
    assert first.startswith("not known: a step needs at least 1.38 GiB of the 8 GiB")
    assert second == "resnet152: one training step of 4 examples, float32, adam"
    assert third == "only a lower bound: no step was traced: --counts"
    assert "this does not show that it fits" in first and "a lower bound; not in it" in text
    assert "(an estimate by roofline, a bound)" in text
    assert "60,192,808" in text and "92.11 GFLOP" in text
    assert "the 10 layers with the most FLOPs, of 517" in text
    assert "T1 = Σ_μ Σ_i T(μ,i) = " in text and "give --samples" in text


def test_what_exceeds_the_device_does_not_fit():
    words = ("estimate", "vgg16", "--batch", "128", "--device", "jetson-tx2", "--counts")
    text = shown(*words, "--layers", "0")
    assert text.startswith("does not fit: a step needs at least ")
    bound = json.loads(shown(*words, "--json"))["memory_bound"]
    assert bound["fits"] is False and bound["bound_bytes"] > bound["capacity_bytes"]


def test_json_carries_every_layer_with_units_in_names():
    found = json.loads(
        shown("estimate", "alexnet", "--batch", "8", "--optimizer", "sgd", "--momentum", "0",
              "--precision", "bf16", "--device", "h200", "--samples", "1000", "--counts", "--json")
    )  # fmt: skip
    assert found["origin"] == "estimate" and found["optimizer"] == {"name": "sgd", "momentum": 0}
    totals = found["totals"]
    for name, total in totals.items():
        if name != "intensity_flop_per_byte":
            assert total == sum(layer[name] for layer in found["layers"])
    assert found["memory_bound"]["fits"] is None and found["memory_bound"]["optimizer_bytes"] == 0
    memory = found["memory"]
    assert memory["allocated_bytes"] is None and memory["fits"] is memory["low"]["fits"] is None
    assert memory["verdict"] == "not known" and "--counts" in memory["missing"]
    assert found["time"]["peak"] == "bf16_flop_per_s" and found["time"]["step_s"] > 0
    assert found["study_r"]["redundancy"]["verdict"] == "cannot hold the sample"
    # 61,100,840 weights of 1000 × 150,528 numbers.
    assert found["study_r"]["redundancy"]["k1"] == pytest.approx(61_100_840 / 150_528_000)
    assert found["device"]["memory_bytes"]["source"]


@pytest.fixture(scope="module")
def helped(tmp_path_factory):
    """A small network on a device that is too small for it, with all that was tried."""
    folder = tmp_path_factory.mktemp("helped")
    (folder / "mine.json").write_text(json.dumps({"name": "mine", "memory_bytes": 1100 << 20}))
    done = trainload(
        "estimate", "alexnet", "--batch", "32", "--classes", "10", "--device", "./mine.json",
        "--html", "fits.html", "--json",
        cwd=folder, env={"TRAINLOAD_ESTIMATES": str(folder / "kept")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


@TORCH
def test_a_traced_step_has_a_verdict_with_low_and_high(helped):
    memory = helped[1]["memory"]
    assert memory["verdict"] in ("does not fit", "too close to call")
    assert memory["capacity_bytes"] == 1100 << 20
    names = ("allocated_bytes", "reserved_bytes", "device_bytes", "needed_bytes")
    for name in names:
        assert memory["low"][name] < memory[name] < memory["high"][name]
    assert memory["allocated_bytes"] <= memory["reserved_bytes"] <= memory["device_bytes"]
    assert memory["needed_bytes"] <= memory["device_bytes"]
    assert memory["high"]["fits"] is False
    assert 0.01 < memory["running_out_probability"] <= 1
    assert sum(memory["peak"]["by_category"].values()) == memory["peak"]["total_bytes"]
    assert {point["phase"] for point in memory["curve"]} >= {"forward", "backward", "update"}
    # The lower bound from the graph alone holds.
    assert helped[1]["memory_bound"]["bound_bytes"] < memory["allocated_bytes"]


@TORCH
def test_what_would_help_is_tried_and_the_largest_batch_fits(helped):
    memory = helped[1]["memory"]
    helps = {one["name"]: one for one in memory["what_would_help"]}
    assert {
        "bf16 autocast", "activation checkpointing", "sgd with momentum", "sgd without momentum",
        "gradient accumulation: 2 portions of 16", "gradient accumulation: 4 portions of 8",
    } == set(helps)  # fmt: skip
    plain, momentum = helps["sgd without momentum"], helps["sgd with momentum"]
    assert plain["gain_bytes"] > momentum["gain_bytes"] > 0
    assert plain["needed_bytes"] == memory["needed_bytes"] - plain["gain_bytes"]
    assert memory["largest_batch"]["batch_size"] is None or (
        memory["largest_batch"]["batch_size"] < 32
    )


@TORCH
def test_the_page_and_the_kept_estimate_are_written(helped):
    folder, found = helped
    page = (folder / "fits.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "What would help" in page
    kept = [json.loads(path.read_text()) for path in (folder / "kept").iterdir()]
    assert [one["memory"]["needed_bytes"] for one in kept] == [found["memory"]["needed_bytes"]]


BUILD = """
import torch
from torch import nn
from torch.nn.functional import cross_entropy


def build(batch):
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    rows, labels = torch.zeros(batch, 64), torch.zeros(batch, dtype=torch.int64)
    return model, lambda: cross_entropy(model(rows), labels)


def lossless(batch):
    return nn.Linear(4, 4), lambda: None
"""


@TORCH
def test_a_function_of_the_users_own(tmp_path):
    (tmp_path / "mine.py").write_text(BUILD)
    kept = {"TRAINLOAD_ESTIMATES": str(tmp_path / "kept")}
    done = trainload("estimate", "mine.py:build", "--batch", "16", "--device", "h200",
                     cwd=tmp_path, env=kept)  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0].startswith("fits: needs ") and "chance of running out: below 0.1 %" in lines[0]
    assert lines[1] == "mine.py:build: one training step of 16 examples, float32, adam"
    assert "memory held over one step" in done.stdout and "what would help" not in done.stdout
    assert "counts, from the traced operations" in done.stdout and "19,210" in done.stdout
    assert "time: at best " in done.stdout and "each operation reads and writes" in done.stdout
    done = trainload("estimate", "mine.py:lossless", cwd=tmp_path)
    assert done.returncode == 2 and "the loss function gives nothing" in done.stderr


@TORCH
def test_a_few_real_steps_of_a_function(tmp_path):
    (tmp_path / "mine.py").write_text(BUILD)
    done = trainload("estimate", "mine.py:build", "--measure", "--json", cwd=tmp_path)
    measured = json.loads(done.stdout)["memory"]["measured"]
    assert measured["outcome"] == "completed" and measured["rss_bytes"] > 0
    assert (tmp_path / measured["path"] / "run.json").exists()


@TORCH
def test_a_processor_needs_ram(tmp_path):
    done = trainload("estimate", "lenet5", "--device", "epyc-7742", "--layers", "0",
                     env={"TRAINLOAD_ESTIMATES": str(tmp_path)})  # fmt: skip
    assert re.match(r"needs .* of RAM beside what torch takes", done.stdout)


@TORCH
def test_a_script_as_it_stands(tmp_path):
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "device = 'cuda' if len(sys.argv) == 2 and torch.cuda.is_available() else 'cpu'\n"
        "model = torch.nn.Linear(8, int(sys.argv[1])).to(device)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(9):\n"
        "    model(torch.randn(4, 8).to(device)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    ask = ("estimate", "--script", "train.py", "--json")
    there = {"cwd": tmp_path, "env": {"TRAINLOAD_ESTIMATES": str(tmp_path / "kept")}}
    done = trainload(*ask, "--", "3", **there)
    on_cpu = trainload(*ask, "--", "3", "cpu", **there)
    assert on_cpu.returncode == 2 and not on_cpu.stdout
    assert "the step puts nothing on the GPU" in on_cpu.stderr and "--target cpu" in on_cpu.stderr
    asked_so = trainload(*ask, "--target", "cpu", "--", "3", "cpu", **there)
    assert json.loads(asked_so.stdout)["totals"]["parameters"] == 27
    found = json.loads(done.stdout)
    assert found["model"] == "train.py 3" and found["totals"]["parameters"] == 27
    assert found["batch_size"] is None and found["memory"]["needed_bytes"] > 0


def test_without_torch_the_counts_are_still_there(tmp_path):
    environments = {"TRAINLOAD_ENVS": str(tmp_path)}
    (tmp_path / "torch.json").write_text(json.dumps({"python": "/nowhere/python", "own": False}))
    done = trainload("estimate", "lenet5", "--device", "h200", env=environments)
    assert done.returncode == 0, done.stderr
    first, _, third, *_ = done.stdout.splitlines()
    assert first.startswith("not known: a step needs at least")
    assert third.startswith("only a lower bound: ") and "trainload env create torch" in third
    assert "counts" in done.stdout


@TORCH
def test_the_example_builds():
    import runpy

    found = runpy.run_path(str(EXAMPLES / "gpt2_build.py"))
    assert sum(p.numel() for p in found["GPT2"](width=48, heads=4, blocks=2).parameters()) > 0
    assert "build_medium" in found


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
    text = shown("estimate", "mlp", "--samples", "80909", "--counts")
    assert "N_na = 9,154,681 cells" in text


def test_a_graph_from_a_file(tmp_path):
    from trainload.checked import to_json
    from trainload.workload import MODELS, build_model

    path = tmp_path / "graph.json"
    graph = build_model("lenet5", MODELS["lenet5"].options())
    path.write_text(json.dumps(to_json(graph.to_spec())))
    text = shown("estimate", str(path), "--batch", "2", "--counts")
    assert text == shown("estimate", "lenet5", "--batch", "2", "--counts")


def test_a_device_of_the_users_own(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "mine", "memory_bytes": 2**29}))
    text = shown("estimate", "resnet50", "--device", str(path), "--counts")
    assert "of the 512 MiB of mine" in text
    assert "time: no estimate: the entry of mine states no peak in float32" in text


def test_devices_are_listed_and_shown_with_sources():
    text = shown("devices")
    assert re.search(r"^jetson-tx2 +board +2017 +8 GiB +59\.7 GB/s +0\.6656", text, re.M)
    listed = json.loads(shown("devices", "--json"))["devices"]
    assert len(listed) >= 90
    one = shown("devices", "jetson tx2")
    assert "data sheet" in one and "no source states: tf32, bf16" in one
    assert json.loads(shown("devices", "h200", "--json"))["name"] == "h200"


def test_words_list_fewer_devices_and_links_stand_apart():
    text = shown("devices", "laptop", "8gb")
    assert "rtx-4060-laptop" in text and "h200" not in text and "devices; peaks" in text
    found = json.loads(shown("devices", "accelerator", "checked", "--json"))["devices"]
    assert found and all(one["checked"] and one["kind"] == "accelerator" for one in found)
    differing = shown("devices", "rtx-4090")
    assert re.search(r"differs +Epoch AI has twice as much", differing)
    assert "agrees" in differing and "no second source" not in differing
    assert re.search(r"^nvlink-4 +.* 450 GB/s", shown("devices", "--links", "nvlink"), re.M)
    links = json.loads(shown("devices", "--links", "--json"))["links"]
    assert {"pcie-5-x16", "infiniband-ndr"} <= {link["name"] for link in links}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["estimate"], "name a model, or give Jamgharyan's numbers as well: --samples, --inputs"),
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
        (["estimate", "train.py"], "name a function in it, such as train.py:build, or"),
        (["estimate", "no.py:build"], "no.py: no such file"),
        (["estimate", "--script", "no.py"], "no such script: no.py"),
        (["estimate", "mlp", "more"], "'more': only a script takes arguments"),
        (["estimate", "mlp", "--target", "tpu"], "must be cuda or cpu"),
        (["estimate", "mlp", "--limit-s", "0"], "must be above 0 seconds"),
        (["estimate", "mlp", "--python", "/nowhere"], "no such interpreter"),
        (["estimate", "--samples", "5", "--inputs", "3"], "numbers as well: --outputs, --weights"),
        (["devices", "h201"], "did you mean h20 or h200"),
        (["devices", "laptop", "abacus"], "no device 'laptop abacus' in the catalogue"),
        (["devices", "./no.json"], "cannot read the device file"),
        (["devices", "--links", "abacus"], "no link fits 'abacus'"),
    ],
)
def test_wrong_words_are_one_clear_line(arguments, words, tmp_path):
    done = trainload(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and re.search(words, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not done.stdout


def test_wrong_graphs_are_one_clear_line(tmp_path):
    for text, words in (
        ("{", "is no JSON"),
        ("{}", "'name' is missing"),
        ("[]", "expected an object"),
    ):
        path = tmp_path / "graph.json"
        path.write_text(text)
        done = trainload("estimate", str(path))
        assert done.returncode == 2 and words in done.stderr
    path.write_text("{}")
    done = trainload("estimate", str(path), "--classes", "3")
    assert done.returncode == 2 and "is a finished graph" in done.stderr


def test_several_devices_are_ranked_by_whether_it_fits_and_the_room_left():
    words = ("estimate", "vgg16", "--batch", "128", "--counts", "--device", "jetson-tx2,t4,h200,t4")
    text = shown(*words)
    assert text.startswith(
        "surely fits none of 3 devices\nvgg16: one training step of 128 examples"
    )
    assert "no step was traced: --counts" in text and "at best a step" in text
    found = json.loads(shown(*words, "--json"))
    assert found["origin"] == "estimate" and found["format"] == 1
    assert [one["rank"] for one in found["devices"]] == [1, 2, 3]
    assert (
        found["devices"][-1]["name"] == "jetson-tx2"
    )  # the lower bound shows that it does not fit
    assert found["devices"][-1]["fits"] is False and found["devices"][-1]["left_bytes"] is None
    assert found["devices"][0]["estimate"]["totals"]["parameters"] == 138_357_544


@TORCH
def test_devices_that_it_fits_stand_first(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps({"name": "small", "memory_bytes": 300 << 20}))
    names = f"{tmp_path / 'small.json'},t4,h200"
    found = json.loads(shown("estimate", "alexnet", "--batch", "2", "--device", names, "--json"))
    assert [one["name"] for one in found["devices"]] == ["h200", "t4", "small"]
    assert [one["fits"] for one in found["devices"]] == [True, True, False]
    left = [one["left_bytes"] for one in found["devices"]]
    assert left == sorted(left, reverse=True) and left[-1] < 0
    assert not found["devices"][-1]["estimate"]["memory"]["what_would_help"], "not asked for"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--device", "t4,h200", "--html", "x.html"), "--html shows one device"),
        (("--device", "t4,h200", "--measure"), "--measure runs on this machine"),
        (("--device", "t4,nothing-like-it"), "nothing-like-it"),
        (("--device", ","), "name at least one device"),
    ],
)
def test_what_several_devices_cannot_mean_is_one_line(words, said):
    done = trainload("estimate", "lenet5", "--counts", *words)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
