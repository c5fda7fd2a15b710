"""The terminal's words."""

import io

import pytest
from rich.console import Console

from trainload.analyse import summarise_run
from trainload.record import open_run
from trainload.report import clean_text, render_detect, render_overhead, render_summary


def text_of(renderable, width=110):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("overhead", "expected"),
    [
        (
            {
                "verdict": "resolved",
                "ratio": 1.004,
                "low": 1.001,
                "high": 1.007,
                "observations": 20,
            },
            "own overhead: +0.4 % (95 % interval +0.1 % … +0.7 %), from 20 alternations",
        ),
        (
            {"verdict": "not_resolvable", "ratio": 1.001, "low": 0.988, "high": 1.015},
            "own overhead: not resolvable: noise is larger (interval −1.2 % … +1.5 %)",
        ),
        (
            {"verdict": "not_measured", "reason": "the run was too short"},
            "own overhead: not measured: the run was too short",
        ),
        (None, "own overhead: not measured"),
    ],
)
def test_own_overhead_is_one_sentence(overhead, expected):
    assert render_overhead(overhead) == expected


def test_a_small_overhead_keeps_a_digit():
    values = {"verdict": "resolved", "ratio": 1.0003, "low": 1.0001, "high": 1.0005}
    assert "+0.03 % (95 % interval +0.01 % … +0.05 %)" in render_overhead(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mb\x07c", "abc"),
        ("a\nb\tc", "a b c"),
        ("\u202eabc", "abc"),
        ("\ud800", "\ufffd"),
        ("\x1b]0;title\x07x", "x"),
    ],
)
def test_text_of_others_is_made_safe(text, expected):
    assert clean_text(text) == expected


def test_the_outcome_comes_first(make_run):
    run = open_run(make_run(outcome="failed", reason="it broke", hostile=True))
    text = text_of(render_summary(summarise_run(run), run.manifest))
    assert text.startswith("failed")
    assert "it broke" in text
    assert "[bold]" in text
    assert "\x1b" not in text
    assert "host_cpu_load_fraction" in text
    assert "own overhead: +0.4 %" in text


def test_energy_carries_unit_and_provenance(make_run):
    run = open_run(make_run(gpu=True))
    text = text_of(render_summary(summarise_run(run), run.manifest))
    assert "4.86 kJ (1.35 Wh)" in text
    assert "measured" in text


def test_detect_tells_why_a_meter_is_missing(make_run):
    run = open_run(make_run(gpu=True))
    text = text_of(render_detect(run.manifest.machine, run.manifest.meters), width=200)
    assert "Example CPU 9000" in text
    assert "NVIDIA H200" in text
    assert "unavailable" in text
    assert "energy_uj may not be read by this user" in text


def test_an_empty_machine_and_no_meters_are_told():
    assert "none" in text_of(render_detect({}, ()))
