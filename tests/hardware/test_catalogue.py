"""The catalogue: believable figures with sources, names found or refused, a user's own file."""

import json
import re

import pytest

from trainload.errors import TrainloadError, UnknownHardware
from trainload.hardware.catalogue import (
    FIGURES,
    KINDS,
    devices_like,
    find_device,
    load_catalogue,
)
from trainload.hardware.links import load_links
from trainload.predict.several import SHARED_BUS, bus_bytes_per_s

DEVICES = load_catalogue()
PEAKS = [name for name in FIGURES if name.endswith("_flop_per_s")]
# Generations whose matrix units are at least as fast as their plain float32.
MATRIX_UNITS = [name for name, device in DEVICES.items() if device.value("bf16_flop_per_s")]


def test_there_are_enough_of_every_kind():
    kinds = [device.kind for device in DEVICES.values()]
    assert len(DEVICES) >= 90 and set(kinds) == set(KINDS) - {"own"}
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
    if brain and single:
        assert brain >= single
    if brain and tf32 and device.kind != "accelerator":
        assert brain >= 1.9 * tf32
    if half and single and device.kind != "CPU":
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
    for link in ("link_bytes_per_s", "host_bytes_per_s"):
        if device.value(link):
            assert device.value(link) < bandwidth


PROCESSORS = [device for device in DEVICES.values() if device.kind == "CPU"]


@pytest.mark.parametrize("device", PROCESSORS, ids=lambda device: device.name)
def test_a_processors_figures_are_in_proportion(device):
    cores, boost = device.value("cores"), device.value("boost_clock_hz")
    base, bits = device.value("base_clock_hz"), device.value("vector_bits")
    assert cores and bits in (128, 256, 512)
    assert not base or base <= boost
    if boost:
        # At most four fused units of the widest instruction, and no fewer than half a unit.
        cycle = device.value("float32_flop_per_s") / (cores * boost)
        assert 0.25 <= cycle / (2 * bits / 32) <= 4
    if channels := device.value("memory_channels"):
        # From DDR4-2133 to DDR5-8800, 8 bytes wide.
        assert 15e9 <= device.value("bandwidth_bytes_per_s") / channels <= 71e9


def test_links_have_sources_and_devices_state_theirs():
    links = load_links()
    assert len(links) >= 25
    for link in links.values():
        assert 1e8 <= link.bytes_per_s.value <= 1e12
        assert re.search(r"\b(19|20)\d\d\b", link.bytes_per_s.source)
    assert links["pcie-4-x16"].bytes_per_s.value == pytest.approx(31.5e9, rel=1e-3)
    for name, link in {
        "h200": "nvlink-4",
        "b200": "nvlink-5",
        "a100-sxm4-80gb": "nvlink-3",
        "v100-sxm2-16gb": "nvlink-2",
        "p100-sxm2": "nvlink-1",
        "mi300x": "infinity-fabric-mi300x",
        "tpu-v5p": "ici-v5p",
    }.items():
        assert DEVICES[name].value("link_bytes_per_s") == links[link].bytes_per_s.value
    assert DEVICES["l4"].value("host_bytes_per_s") == links["pcie-4-x16"].bytes_per_s.value


def test_only_boards_on_switches_have_the_bus_of_a_switch():
    assert bus_bytes_per_s(DEVICES["h200"]) == pytest.approx(3.6e11)
    assert bus_bytes_per_s(DEVICES["b200"]) == pytest.approx(7.2e11)
    for name in ("gh200-96gb", "h200-nvl", "a100-sxm4-80gb", "tpu-v5p"):
        assert bus_bytes_per_s(DEVICES[name]) == SHARED_BUS


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["a100"], {"a100-sxm4-40gb", "a100-pcie-40gb", "a100-sxm4-80gb", "a100-pcie-80gb"}),
        (["Google", "TPU"], {name for name in DEVICES if name.startswith("tpu-")}),
        (["laptop", "24GB", "nvidia"], {"rtx-5090-laptop"}),
        (["rtx4090"], {"rtx-4090", "rtx-4090-laptop"}),
        (["abacus"], set()),
        ([], set(DEVICES)),
    ],
)
def test_words_find_those_that_all_of_them_fit(words, names):
    assert {device.name for device in devices_like(words)} == names


@pytest.mark.parametrize(
    ("names", "start"),
    [
        ("v2 v3 v4 v5e v5p v6e", "tpu-"),
        ("100 210 250 250x 300a 300x 325x 350x 355x", "mi"),
        ("gaudi-2 gaudi-3 max-1100 max-1550 trainium1 trainium2", ""),
        ("p4 k80 m40 p40 a2 a10 a16 a30 a40 l4 l40 l40s h20 h200 b200 gh200-96gb", ""),
        ("pcie sxm nvl", "h100-"),
        ("2080 3050 3060-ti 3080-ti 4060-ti-16gb 4070-super 5060 5070 5080 5090", "rtx-"),
    ],
)
def test_families_are_whole(names, start):
    assert {start + name for name in names.split()} <= set(DEVICES)


def test_memory_is_whole_gibibytes():
    for device in DEVICES.values():
        if device.value("memory_bytes"):
            assert device.value("memory_bytes") % 2**30 == 0


def test_every_device_with_cuda_states_its_compute_capability():
    for device in DEVICES.values():
        processor = "-cpu" in device.name or device.kind == "CPU"
        with_cuda = device.maker == "NVIDIA" and not processor
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
        ("tpu-v9", "tpu-v"),
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


@pytest.mark.parametrize("name", ["h200", "jetson-tx2", "epyc-7742", "rtx-4090", "tpu-v4"])
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
        ('{"name": "m", "power_w": {"value": 3, "source": "s", "to": 4}}', "has 'to'; known"),
        ('{"name": "m", "power_w": {"value": 3, "source": "s", "also": 4}}', "'also' must be"),
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
