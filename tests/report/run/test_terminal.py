"""The terminal's words."""

import io

import pytest
from rich.console import Console

from trainload.analyse import summarise_run
from trainload.hardware import Machine
from trainload.record import Manifest, OverheadMeasurement, SamplerUse, open_run
from trainload.record.parts import CheckpointOrigin
from trainload.report import clean_text, render_detect, render_overhead, render_summary
from trainload.report.run.rows import course_rows, machine_rows
from trainload.report.wording import render_sampler


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
            "own overhead: not resolvable: noise is larger (−1.2 % … +1.5 %)",
        ),
        (
            {
                "verdict": "not_resolvable",
                "reason": "the interval contains no overhead at all",
                "low": 0.992,
                "high": 1.055,
            },
            "own overhead: not resolvable: the interval contains no overhead at all "
            "(−0.8 % … +5.5 %)",
        ),
        (
            {
                "verdict": "not_resolvable",
                "reason": "steps were faster with the sampler than without: "
                "the machine itself varied",
                "low": 0.95,
                "high": 0.99,
            },
            "own overhead: not resolvable: steps were faster with the sampler than without: "
            "the machine itself varied (−5.0 % … −1.0 %)",
        ),
        (
            {"verdict": "not_measured", "reason": "the run was too short"},
            "own overhead: not measured: the run was too short",
        ),
        (None, "own overhead: not measured"),
    ],
)
def test_own_overhead_is_one_sentence(overhead, expected):
    measured = None if overhead is None else OverheadMeasurement(**overhead)
    assert render_overhead(measured) == expected


def test_a_small_overhead_keeps_a_digit():
    measured = OverheadMeasurement(verdict="resolved", ratio=1.0003, low=1.0001, high=1.0005)
    assert "+0.03 % (95 % interval +0.01 % … +0.05 %)" in render_overhead(measured)


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
    assert "4.88 kJ (1.35 Wh)" in text  # 300 W over the 16.25 s of training
    assert "measured" in text


def test_an_amount_that_misses_part_of_the_training_says_so(make_run):
    run = open_run(make_run(gpu=True, energy_every=40, samples_from_s=3.0))
    text = text_of(render_summary(summarise_run(run), run.manifest), width=200)
    assert "3.6 kJ (1 Wh, over 12 s of 16.2 s)" in text
    assert "300 W" in text
    assert "22.9 s (over 15.2 s of 16.2 s)" in text


def test_the_dearest_meters_stand_beside_the_cpu_time():
    sampler = SamplerUse(
        loop_cpu_s=0.4,
        wall_s=10.0,
        meter_cpu_s={"disk": 0.001, "host_cpu": 0.015, "idle": 0.0},
    )
    assert (
        "400 ms of CPU time (4.0 % of one core; dearest meters: host_cpu 15 ms, disk 1 ms), "
        "peak memory"
    ) in render_sampler(sampler)


def test_one_warm_up_step_is_one(make_run):
    run = open_run(make_run(steps_per_epoch=5, epochs=1))
    text = text_of(render_summary(summarise_run(run), run.manifest))
    assert "(median, 1 warm-up step left out)" in text


def test_a_script_tells_its_steps_and_no_scores(make_run):
    run = open_run(make_run(script=True))
    summary = summarise_run(run)
    text = text_of(render_summary(summary, run.manifest))
    assert summary.warnings == ()
    assert "300 steps" in text
    assert "not seen: no backward pass" in text


def test_detect_tells_why_a_meter_is_missing(make_run):
    run = open_run(make_run(gpu=True))
    text = text_of(render_detect(run.manifest.machine, run.manifest.meters), width=200)
    assert "Example CPU 9000" in text
    assert "NVIDIA H200" in text
    assert "unavailable" in text
    assert "energy_uj may not be read by this user" in text


def test_an_empty_machine_and_no_meters_are_told():
    machine = Machine(
        cpu_model=None,
        architecture=None,
        logical_cores=1,
        physical_cores=None,
        allowed_cores=(),
        cpu_quota_cores=None,
        memory_total_bytes=None,
        memory_limit_bytes=None,
        swap_total_bytes=None,
        operating_system=None,
        kernel=None,
        accelerators=(),
        accelerator_note=None,
    )
    text = text_of(render_detect(machine, ()))
    assert "none" in text and "None" not in text
    assert machine_rows(None) == [("machine", "not known: the record does not say")]


def test_what_a_record_does_not_say_is_a_dash():
    ((label, words),) = course_rows(Manifest(continues=CheckpointOrigin()))
    assert (label, words) == ("continues", "– after – epochs (–)")
