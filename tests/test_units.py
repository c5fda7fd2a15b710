"""Units read from names, and values written for people."""

import pytest

from trainload import units


@pytest.mark.parametrize(
    ("name", "unit"),
    [("step_s", "s"), ("gpu0_power_w", "W"), ("net_bytes_per_s", "bytes/s"), ("epoch", None)],
)
def test_unit_of_reads_the_suffix(name, unit):
    assert units.unit_of(name) == unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (2.5e-8, "25 ns"),
        (0.00123, "1.23 ms"),
        (12.34, "12.3 s"),
        (75, "1 min 15 s"),
        (7260, "2 h 01 min"),
        (90000, "1 d 01 h"),
    ],
)
def test_seconds_for_people(seconds, text):
    assert units.render_seconds(seconds) == text


def test_bytes_and_values_for_people():
    assert units.render_bytes(512) == "512 bytes"
    assert units.render_bytes(3 * 2**30) == "3 GiB"
    assert units.render_bytes(None) == "–"
    assert units.render_value("cpu_load_fraction", 0.5) == "50.0 %"
    assert units.render_value("clock_hz", 1.98e9) == "1980 MHz"
    assert units.render_value("power_w", None) == "–"
    assert units.render_flop(1_428_376_960) == "1.428 GFLOP"
    assert units.render_flop(833) == "833 FLOP"
    assert units.render_flop(None) == "–"
