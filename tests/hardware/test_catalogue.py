"""The catalogue: believable figures with sources, names found or refused, a user's own file."""

import json
import re

import pytest

from trainload.errors import TrainloadError, UnknownHardware
from trainload.hardware.catalogue import (
    FIGURES,
    KINDS,
    find_device,
    load_catalogue,
)

DEVICES = load_catalogue()
PEAKS = [name for name in FIGURES if name.endswith("_flop_per_s")]
# Generations whose matrix units are at least as fast as their plain float32.
MATRIX_UNITS = [name for name, device in DEVICES.items() if device.value("bf16_flop_per_s")]


def test_there_are_enough_of_every_kind():
    kinds = [device.kind for device in DEVICES.values()]
    assert len(DEVICES) >= 40 and set(kinds) == set(KINDS) - {"own"}
    assert all(kinds.count(kind) >= 5 for kind in set(kinds))


def test_names_and_aliases_mean_one_device_each():
    plain = {}
    for device in DEVICES.values():
        for text in {device.name, device.title, *device.aliases}:
            key = re.sub(r"[^a-z0-9+]", "", text.lower())
            assert plain.setdefault(key, device.name) == device.name
            assert find_device(text) is device


@pytest.mark.parametrize("name", DEVICES)
def test_an_entry_is_complete_and_every_figure_has_a_dated_source(name):
    device = DEVICES[name]
    assert re.fullmatch(r"[a-z0-9+]+(-[a-z0-9+]+)*", device.name)
    assert device.title and device.maker and 2010 <= device.year <= 2026
    assert set(device.figures) == set(FIGURES)
    assert device.value("bandwidth_bytes_per_s")
    assert device.kind == "CPU" or device.value("memory_bytes")
    for figure, (low, high) in FIGURES.items():
        found = device.figures[figure]
        if found is not None:
            assert low <= found.value <= high
            assert re.search(r"\b20\d\d\b", found.source) and len(found.source) > 20


@pytest.mark.parametrize("name", DEVICES)
def test_figures_are_in_proportion(name):
    device = DEVICES[name]
    single, tf32 = device.value("float32_flop_per_s"), device.value("tf32_flop_per_s")
    half, brain = device.value("fp16_flop_per_s"), device.value("bf16_flop_per_s")
    if tf32 and single:
        assert tf32 >= single
    if brain:
        assert brain >= single and (not tf32 or brain >= 1.9 * tf32)
    if half and device.kind != "CPU":
        assert half >= single
    if half and brain:
        assert brain <= half
    if device.value("int8_op_per_s") and half:
        assert device.value("int8_op_per_s") >= half
    bandwidth = device.value("bandwidth_bytes_per_s")
    for peak in PEAKS:
        if device.value(peak):
            # FLOPs for each byte: below 1 or above 1,000 a unit has slipped.
            assert 1 <= device.value(peak) / bandwidth <= 1000


def test_memory_is_whole_gibibytes():
    for device in DEVICES.values():
        if device.value("memory_bytes"):
            assert device.value("memory_bytes") % 2**30 == 0


def test_every_device_with_cuda_states_its_compute_capability():
    for device in DEVICES.values():
        with_cuda = device.maker == "NVIDIA" and "-cpu" not in device.name
        assert (device.capability is not None) == with_cuda, device.name
    assert DEVICES["rtx-3090"].capability == (8, 6)
    assert DEVICES["b200"].capability == (10, 0)


def test_sparse_figures_have_not_slipped_in():
    # Dense peaks of the makers' tables, where a sparse one stands beside.
    assert DEVICES["a100-sxm4-80gb"].value("bf16_flop_per_s") == 312e12
    assert DEVICES["h100-sxm"].value("bf16_flop_per_s") == 989.5e12
    assert DEVICES["l40s"].value("bf16_flop_per_s") == 362.05e12
    assert DEVICES["jetson-orin-nano-8gb"].value("int8_op_per_s") == 20e12


@pytest.mark.parametrize("text", ["h200", "H200", "NVIDIA H200 SXM 141 GB", "h200-sxm"])
def test_a_name_is_known_however_it_is_written(text):
    assert find_device(text).name == "h200"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a100", "a100-sxm4-40gb.*a100-sxm4-80gb"),
        ("jetson-tx3", "did you mean jetson-tx"),
        ("rtx4099", "rtx-4090"),
        ("orin", "jetson-"),
        ("abacus", "trainload devices lists them|did you mean"),
        ("", "trainload devices lists them"),
    ],
)
def test_an_unknown_name_suggests_and_substitutes_nothing(text, words):
    with pytest.raises(UnknownHardware, match=words) as caught:
        find_device(text)
    assert isinstance(caught.value, TrainloadError) and "\n" not in str(caught.value)


def test_a_device_of_the_users_own(tmp_path):
    path = tmp_path / "mine.json"
    words = {"name": "mine", "memory_bytes": 2**33, "power_w": 40, "compute_capability": 8.9}
    path.write_text(json.dumps(words))
    device = find_device(str(path))
    assert device.capability == (8, 9)
    assert device.value("memory_bytes") == 2**33 and device.value("bf16_flop_per_s") is None
    assert device.kind == "own" and "mine" in device.figures["power_w"].source


@pytest.mark.parametrize("name", ["h200", "jetson-tx2", "epyc-7742"])
def test_what_is_shown_can_be_read_back(name, tmp_path):
    path = tmp_path / "copy.json"
    path.write_text(json.dumps(DEVICES[name].to_json()))
    assert find_device(str(path)) == DEVICES[name]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is a JSON object"),
        ("{}", "needs a 'name'"),
        ('{"name": 3}', "'name' must be a text"),
        ('{"name": "m", "memory": 8}', "did you mean 'memory_bytes'"),
        ('{"name": "m", "memory_bytes": 8}', "'memory_bytes' is 8, not between.*mind the unit"),
        ('{"name": "m", "memory_bytes": "8 GB"}', "must be a number"),
        ('{"name": "m", "memory_bytes": true}', "must be a number"),
        ('{"name": "m", "compute_capability": 86}', "not between"),
        ('{"name": "m", "power_w": NaN}', "must be a number"),
        ('{"name": "m", "power_w": {"value": 3}}', "needs a 'value' and a 'source'"),
        ('{"name": "m", "year": "new"}', "'year' must be a year"),
        ('{"name": "m", "aliases": "n"}', "must be a list"),
    ],
)
def test_a_wrong_file_is_one_clear_line(text, words, tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(UnknownHardware, match=words) as caught:
        find_device(str(path))
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named():
    with pytest.raises(UnknownHardware, match="cannot read the device file"):
        find_device("./nowhere.json")


def test_matrix_units_are_among_them():
    assert len(MATRIX_UNITS) >= 20
