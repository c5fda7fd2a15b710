"""The catalogue held to tables of others: who agrees, and that `checked` says no more than that."""

import dataclasses

import pytest

import catalogue_check
from trainload.hardware.catalogue import load_catalogue

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
