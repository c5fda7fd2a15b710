"""`trainload recommend` and `trainload.recommend` as a user meets them."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

import trainload
from trainload.api.recommending.asking import parse_hours
from trainload.errors import TrainloadError, UsageError

TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
PRICES = {
    "kind": "trainload prices",
    "format": 1,
    "source": "made",
    "date": "2026",
    "licence": "own",
    "instances": [
        {"provider": "P", "name": "a", "devices": ["t4"], "count": 1, "on_demand_usd_per_h": 0.5},
        {"provider": "Q", "name": "d", "devices": ["t4"], "count": 1, "on_demand_usd_per_h": 5.0},
        {"provider": "P", "name": "b", "devices": ["t4"], "count": 4, "on_demand_usd_per_h": 2.0},
        {
            "provider": "P",
            "name": "c",
            "devices": ["h100-sxm"],
            "count": 1,
            "on_demand_usd_per_h": 40.0,
            "region": "hall",
        },
    ],
}
WORDS = {"batch_size": 32, "examples": 100000, "epochs": 5, "classes": 10}
LISTED = "t4,h100-sxm,p4,jetson-agx-orin-32gb"


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    path = tmp_path_factory.mktemp("prices") / "mine.json"
    path.write_text(json.dumps(PRICES))
    return path


@pytest.fixture(scope="module")
def fastest(prices):
    return trainload.recommend("resnet18", candidates=LISTED, prices=prices, **WORDS)


@TORCH
def test_the_verb_answers_as_json(prices):
    words = ["resnet18", "--batch", "32", "--examples", "100000", "--candidates", LISTED]
    command = [sys.executable, "-m", "trainload", "recommend", *words]
    more = ["--prices", str(prices), "--objective", "money", "--region", "DEU"]
    more += ["--precision", "float32", "--json"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    first, *rest = found["choices"]
    assert first["rank"] == 1 and first["device"] == "t4" and first["instance"] == "P a"
    assert all(one["usd"] >= first["usd"] for one in rest)
    for name in ("hours", "step_s", "power_w", "energy_kwh", "usd", "kgco2e"):
        assert 0 < first["low"][name] <= first[name] <= first["high"][name], name
    assert first["usd"] == pytest.approx(0.5 * first["hours"])
    assert first["memory"]["needed_bytes"]["value_bytes"] > 0
    assert first["memory"]["running_out"] < 0.01
    assert any("median of 2 such offers is 2.75" in note for note in found["notes"])
    reasons = {one["name"]: one["reason"] for one in found["rejected"]}
    assert "no price" in reasons["p4"] and "states no" in reasons["jetson-agx-orin-32gb"]
    assert any("USD an hour p4" in text or "p4 has no known" in text
               for text in found["what_would_change_it"])  # fmt: skip


@TORCH
def test_choices_are_whole_plans_and_say_why(fastest):
    assert fastest.winner.device.name == "h100-sxm" and fastest.winner.precision == "bf16"
    counts = {(one.plan.device.name, one.plan.count) for one in fastest}
    assert {("t4", 1), ("t4", 4), ("p4", 1)} <= counts
    four = next(one.plan for one in fastest if one.plan.count == 4)
    assert four.batch_size == 32 and four.precision == "fp16"
    text = fastest.to_text()
    assert text.startswith("take h100-sxm") and "\nwhy\n" in text and "rejected: 1" in text
    assert "h100-sxm" in repr(fastest) and len(fastest) == len(fastest.choices)


@TORCH
def test_the_page_holds_choices_and_reasons(fastest):
    page = fastest.to_html()
    assert page.startswith("<!DOCTYPE html>") and 'id="front"' in page
    assert "Take h100-sxm" in page and "jetson-agx-orin-32gb" in page


@TORCH
def test_a_small_device_does_a_large_batch_in_portions():
    done = trainload.recommend(
        "vgg16",
        batch_size=256,
        examples=1000,
        candidates="1xjetson-tx2,1xh100-sxm",
        precision="float32",
    )
    plans = {one.plan.device.name: one.plan for one in done}
    assert plans["h100-sxm"].portions == 1
    assert plans["jetson-tx2"].portions > 1 and plans["jetson-tx2"].batch_size == 256
    assert plans["jetson-tx2"].running_out < 0.01


@TORCH
def test_a_free_batch_is_a_choice():
    done = trainload.recommend("mlp", candidates="1xt4", precision="float32")
    assert done.winner.batch_size == 256 and done.examples == 10**6
    assert any("length is not named" in note for note in done.notes)
    assert any("batch is free" in note for note in done.notes)


@TORCH
def test_impossible_demands_say_what_is_nearest():
    words = {"examples": 10**9, "precision": "float32", "budget": 0, "deadline": "1s"}
    done = trainload.recommend("mlp", candidates="1xt4,1xl4", **words)
    assert done.winner is None and not done.choices and len(done.rejected) == 2
    assert done.nearest and done.nearest[0].missed_by
    assert done.to_text().startswith("nothing keeps to the demands; nearest is ")
    assert "Nothing keeps to the demands" in done.to_html()
    assert done.to_json()["nearest"][0]["missed_by"]


@TORCH
def test_a_processor_needs_no_gpu():
    words = {"batch_size": 64, "examples": 10**6, "precision": "float32"}
    done = trainload.recommend("mlp", candidates="cpu", **words)
    assert {one.plan.device.kind for one in done} == {"CPU"}
    assert done.winner.needed_bytes.value_bytes > 0 and done.winner.running_out is None


def test_what_cannot_be_meant_is_refused():
    for words, said in (
        ({"deadline": "soon", "examples": 1}, "cannot be read"),
        ({"deadline": "1h"}, "needs the training's length"),
        ({"objective": "joy"}, "unknown objective"),
        ({"precision": "fp8"}, "unknown precision"),
        ({"candidates": "nonesuch"}, "no device"),
        ({"candidates": "0xt4"}, "one device at least"),
        ({"candidates": " , "}, "names none"),
        ({"steps": 5}, "--steps needs --batch"),
        ({"epochs": 5}, "--epochs needs --examples"),
        ({"steps": 5, "examples": 5, "batch_size": 1}, "leave out"),
        ({"budget": -1.0}, "0 or more"),
        ({"region": "Atlantis"}, "no carbon intensity"),
    ):
        with pytest.raises(TrainloadError, match=said):
            trainload.recommend("mlp", **words)


def test_deadlines_are_read_in_any_unit():
    assert [parse_hours(text) for text in ("48h", "90min", "2d", "36s", 12, "1w")] == [
        48, 1.5, 48, 0.01, 12, 168,
    ]  # fmt: skip
    with pytest.raises(UsageError):
        parse_hours("-3h")


def test_a_trial_is_of_this_machine():
    command = [sys.executable, "-m", "trainload", "recommend", "mlp"]
    for words in (["--try"], ["--here", "--minutes", "3"], ["--here", "--candidates", "t4"]):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=200)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--here" in done.stderr


@TORCH
def test_suggestions_for_this_machine_show_themselves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    advice = trainload.recommend_here("mlp", batch_size=64)
    told = {one.topic: one for one in advice.suggestions}
    assert len(told) == 9 and all(one.tried is None for one in told.values())
    assert advice.trial is None and "measured here" not in advice.to_text()
    assert "Suggestions" in advice.to_html() and not list(tmp_path.iterdir())
