"""`trainload models`: the list, one model, and one clear line for each wrong word."""

import json
import re
import subprocess
import sys

import pytest


def trainload(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "trainload", *arguments], capture_output=True, text=True, timeout=60
    )


def test_the_list_has_every_model_with_its_figures_and_source():
    from trainload.workload import MODELS

    lines = trainload("models").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(MODELS)
    alexnet = next(line for line in lines if line.startswith("alexnet"))
    assert "61,100,840" in alexnet and "1.428 GFLOP" in alexnet and "2014" in alexnet
    listed = json.loads(trainload("models", "--json").stdout)["models"]
    assert [row["name"] for row in listed] == list(MODELS)
    assert all(row["parameters"] > 0 and row["flop_forward"] > 0 for row in listed)


def test_one_model_is_shown_layer_by_layer():
    done = trainload("models", "alexnet", "--classes", "1000")
    assert done.returncode == 0, done.stderr
    assert re.search(r"features\.conv1 +conv2d +64×55×55 +23,296 +140\.6 MFLOP", done.stdout)
    last = done.stdout.splitlines()[-1]
    assert last == "61,100,840 parameters, 1.428 GFLOP forward for a batch of 1"


def test_the_same_as_json():
    shown = json.loads(trainload("models", "alexnet", "--classes", "1000", "--json").stdout)
    assert shown["parameters"] == 61_100_840
    assert shown["parameters"] == sum(layer["parameters"] for layer in shown["layers"])
    assert shown["flop_forward"] == sum(layer["flop_forward"] for layer in shown["layers"])
    assert shown["layers"][1]["output_shape"] == [64, 55, 55]
    assert shown["options"]["dropout"] == 0.5


def test_options_input_and_batch():
    arguments = ("models", "resnet18", "--set", "classes=7", "--json")
    one = json.loads(trainload(*arguments, "--input", "1x64x96").stdout)
    many = json.loads(trainload(*arguments, "--input", "1x64x96", "--batch", "8").stdout)
    assert one["input_shape"] == [1, 64, 96] and one["output_shape"] == [7]
    assert many["flop_forward"] == 8 * one["flop_forward"]
    assert many["parameters"] == one["parameters"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alexnt"], "unknown model 'alexnt'; did you mean 'alexnet'"),
        (["ResNet-50"], "did you mean 'resnet50'"),
        (["SqueezeNet-1.1"], "did you mean 'squeezenet1_1'"),
        (["alexnet", "--input", "3x20x20"], "layer 'features.pool2' .* take a larger image"),
        (["alexnet", "--input", "3x20"], "takes 3 number.* image_channels, image_height"),
        (["alexnet", "--input", "3x0x9"], "image_height: 0 must be at least 1"),
        (["alexnet", "--input", "3xax9"], "image_height: 'a' is not a whole number"),
        (["alexnet", "--classes", "1"], "classes: 1 must be at least 2"),
        (["alexnet", "--set", "clases=3"], "alexnet has no option 'clases'; did you mean"),
        (["alexnet", "--set", "classes"], "write it as name=value"),
        (["lstm_lm", "--classes", "3"], "lstm_lm has no option 'classes'"),
        (["alexnet", "--batch", "0"], "Invalid value for '--batch'"),
        (["--classes", "3"], "name the model whose options these are"),
    ],
)
def test_wrong_words_are_one_clear_line_and_status_2(arguments, words):
    done = trainload("models", *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(words, done.stderr), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and not done.stdout


def test_no_framework_and_nothing_heavy_is_loaded():
    code = (
        "import sys\nfrom trainload.cli.app import run_app\nrun_app(['models'])\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {"torch", "numpy", "polars", "plotly", "rich"}
