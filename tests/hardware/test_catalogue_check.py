"""The catalogue held to tables of others: who agrees, and that `checked` says no more than that."""

import dataclasses
import re
from pathlib import Path

import pytest

import catalogue_check
from trainload.hardware.catalogue import KINDS, load_catalogue

DEVICES = load_catalogue()
OPINIONS = catalogue_check.read_opinions()


def test_every_difference_is_explained_and_every_agreement_is_one():
    assert catalogue_check.faults(OPINIONS) == []


def test_enough_devices_have_two_sources():
    checked = [device for device in DEVICES.values() if device.checked]
    assert len(checked) >= 40
    makers = {device.maker for device in checked}
    assert {"NVIDIA", "AMD", "Intel", "Google"} <= makers
    for device in checked:
        seconds = [figure for figure in device.figures.values() if figure and figure.also]
        assert len(seconds) >= 3, device.name
        assert all(figure.also != figure.source for figure in seconds)


def test_most_figures_that_others_have_agree():
    assert len(OPINIONS) >= 300
    assert sum(one.agrees for one in OPINIONS) >= 0.85 * len(OPINIONS)


@pytest.mark.parametrize(
    ("device", "figure"),
    [
        ("rtx-4090", "fp16_flop_per_s"),  # float16 accumulation there
        ("p40", "bandwidth_bytes_per_s"),  # doubled there
        ("rtx-2080-ti", "power_w"),  # another board there
    ],
)
def test_known_differences_are_found_and_told(device, figure):
    one = next(o for o in OPINIONS if o.device == device and o.figure == figure)
    assert not one.agrees and "Epoch AI has" in DEVICES[device].figures[figure].differs


def test_a_slipped_figure_is_a_fault():
    first = next(one for one in OPINIONS if one.device == "a40")
    slipped = [dataclasses.replace(one, theirs=2 * one.ours) for one in OPINIONS if one is first]
    told = catalogue_check.faults(slipped)
    assert any(text.startswith(f"a40: {first.figure} differs") for text in told)
    assert any("a40" in text and "claims an agreement" in text for text in told)


def test_the_page_counts_what_is_there():
    page = (Path(__file__).parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    for kind in set(KINDS) - {"own"}:
        of_kind = [device for device in DEVICES.values() if device.kind == kind]
        checked = sum(device.checked for device in of_kind)
        assert re.search(rf"^\| {kind}.*\| {len(of_kind)} \| {checked} \|$", page, re.M), kind
    devices, agreed = {one.device for one in OPINIONS}, sum(one.agrees for one in OPINIONS)
    assert f"{len(OPINIONS)} figures of {len(devices)} devices have a second opinion" in page
    assert f"{agreed} agree within" in page
    assert f"{sum(d.checked for d in DEVICES.values())} of {len(DEVICES)} are" in page
