"""The scorecard's arithmetic: errors, groups, verdicts, and what is paired of a run."""

from dataclasses import replace

import pytest

from trainload.analyse.scorecard import (
    EstimatePair,
    VerdictPair,
    pair_card,
    pair_run,
    score_estimates,
)
from trainload.record import Clock, Manifest, RecordedSetting
from trainload.workload import assemble_workload, recorded_workload
from trainload_worker.protocol.events import MemoryUse, Obtained, ObtainedAccelerator

GIB = 1 << 30


def pair(name, quantity, estimate, truth, kind="CNN", device="h200"):
    return EstimatePair(
        name=name,
        device=device,
        model_kind=kind,
        quantity=quantity,
        estimate_bytes=estimate,
        truth_bytes=truth,
    )


def verdict(said, outcome, name="a", capacity=GIB):
    return VerdictPair(
        name=name, device="h200", capacity_bytes=capacity, verdict=said, outcome=outcome
    )


def test_median_worst_and_bias_are_worked_by_hand():
    card = score_estimates(
        [
            pair("a", "reserved", 110, 100),
            pair("b", "reserved", 80, 100),
            pair("c", "reserved", 101, 100, kind="MLP"),
        ]
    )
    total = card.totals.row(0, named=True)
    assert (total["device"], total["quantity"], total["count"]) == ("h200", "reserved", 3)
    assert total["median_error"] == pytest.approx(0.10)
    assert total["worst_error"] == pytest.approx(-0.20)
    assert total["bias_error"] == pytest.approx((0.10 - 0.20 + 0.01) / 3)
    kinds = {row["model_kind"]: row for row in card.groups.iter_rows(named=True)}
    assert kinds["CNN"]["count"] == 2 and kinds["MLP"]["worst_error"] == pytest.approx(0.01)
    assert card.rows["name"].to_list() == ["b", "a", "c"], "worst first"


def test_quantities_and_devices_are_never_mixed():
    card = score_estimates(
        [
            pair("a", "allocated", 1, 1),
            pair("a", "ram", 2, 1, device="cpu"),
            pair("a", "device", 3, 1),
        ]
    )
    assert card.totals.select("device", "quantity").rows() == [
        ("cpu", "ram"),
        ("h200", "allocated"),
        ("h200", "device"),
    ]


def test_the_worst_ten_alone_are_shown_and_a_truth_of_nothing_has_no_error():
    card = score_estimates(
        [pair(f"r{n:02}", "ram", 100 + n, 100) for n in range(15)] + [pair("none", "ram", 5, 0)]
    )
    assert card.rows.height == 15
    assert card.worst["name"].to_list() == [f"r{n:02}" for n in range(14, 4, -1)]


def test_said_fits_and_ran_out_is_found():
    card = score_estimates(
        [],
        [
            verdict("fits", "fits"),
            verdict("fits", "out_of_memory", name="wrong", capacity=7),
            verdict("does not fit", "fits"),
            verdict("too close to call", "out_of_memory"),
        ],
    )
    counts = {row["verdict"]: row for row in card.verdicts.iter_rows(named=True)}
    assert counts["fits"] == {"verdict": "fits", "fits": 1, "out_of_memory": 1}
    assert counts["does not fit"]["fits"] == 1
    assert card.wrong_fits.rows() == [("wrong", "h200", 7)]


def test_nothing_gives_empty_frames():
    card = score_estimates([])
    assert card.rows.height == card.groups.height == card.verdicts.height == 0


MANIFEST = Manifest(
    run_id="resnet18-1",
    created="2026-01-01T00:00:00+00:00",
    trainload_version="0",
    framework="torch",
    workload=recorded_workload(assemble_workload("lenet5", {})),
    setting=RecordedSetting(obtained=Obtained(accelerators=())),
    clock=Clock(start_s=0.0, start_wall_s=0.0),
    memory=MemoryUse(start_rss_bytes=1000, peak_rss_bytes=3000),
    outcome="completed",
)


def test_a_run_on_the_cpu_is_paired_by_its_growth():
    pairs, verdicts = pair_run(MANIFEST, {"memory": {"ram_growth_bytes": 2200}})
    assert pairs == [pair("resnet18-1", "ram", 2200, 2000, device="cpu")]
    assert verdicts == []


def test_a_run_on_a_gpu_is_paired_by_the_allocators_peaks_and_its_verdict():
    gpu = ObtainedAccelerator(name="NVIDIA H200", uuid="x")
    manifest = replace(
        MANIFEST,
        setting=RecordedSetting(obtained=Obtained(accelerators=(gpu,))),
        memory=replace(MANIFEST.memory, peak_allocated_bytes=10, peak_reserved_bytes=20),
        outcome="out_of_memory",
    )
    estimate = {
        "device": {"name": "h200"},
        "memory": {
            "allocated_bytes": 11,
            "reserved_bytes": 19,
            "ram_growth_bytes": 5,
            "capacity_bytes": 30,
            "verdict": "fits",
        },
    }
    pairs, verdicts = pair_run(manifest, estimate)
    assert [(p.quantity, p.estimate_bytes, p.truth_bytes) for p in pairs] == [
        ("allocated", 11, 10),
        ("reserved", 19, 20),
    ]
    assert {p.device for p in pairs} == {"h200"}
    assert verdicts == [verdict("fits", "out_of_memory", name="resnet18-1", capacity=30)]


@pytest.mark.parametrize("estimate", [{}, {"memory": None}, {"memory": {"ram_growth_bytes": "x"}}])
def test_an_estimate_without_figures_pairs_nothing(estimate):
    assert pair_run(MANIFEST, estimate) == ([], [])


def test_a_file_of_truths_is_paired_and_odd_rows_are_passed_over():
    document = {
        "rows": [
            {
                "name": "a",
                "device": "h200",
                "model_kind": "CNN",
                "estimate": {"allocated": 9, "reserved": None},
                "truth": {"allocated": 10, "reserved": 4},
            },
            {"name": "odd"},
            7,
        ],
        "verdicts": [
            {
                "name": "a",
                "device": "h200",
                "capacity_bytes": GIB,
                "verdict": "fits",
                "outcome": "fits",
            },
            {},
        ],
    }
    pairs, verdicts = pair_card(document)
    assert pairs == [pair("a", "allocated", 9, 10)]
    assert verdicts == [verdict("fits", "fits")]
