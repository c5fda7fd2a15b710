import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse.attribution.correct import (
    correct,
    share,
    share_update,
    untraced_step_ns,
)
from trainload.analyse.attribution.header import parse_header
from trainload.analyse.attribution.partition import REMAINDER, Part, StepParts

WEIGHTS = st.lists(st.integers(0, 10**12), min_size=1, max_size=20).filter(any)
PARTS = st.dictionaries(
    st.builds(
        Part,
        st.sampled_from(["layer", "idle", "remainder", "input"]),
        st.none(),
        st.sampled_from(["a", "b"]),
        st.none(),
        st.sampled_from(["host", "input", "synchronise"]),
    ),
    st.integers(1, 10**11),
    min_size=1,
)


@given(total=st.integers(0, 10**15), weights=WEIGHTS)
def test_shares_sum_exactly_and_are_off_by_less_than_one(total: int, weights: list[int]) -> None:
    parts = share(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - total * weight) < sum(weights)


@given(parts=PARTS, untraced=st.integers(1, 10**12))
def test_a_corrected_step_takes_as_long_as_an_untraced_one(
    parts: dict[Part, int], untraced: int
) -> None:
    result = correct(parts, untraced)
    assert sum(result.parts.values()) == untraced
    assert all(time >= 0 for time in result.parts.values())
    if not result.all_scaled:
        for part, time in parts.items():
            if part.kind in ("layer", "input") or (part.kind, part.cause) == ("idle", "input"):
                assert result.parts[part] == time


def test_only_gaps_scale_while_the_work_fits() -> None:
    work, wait = Part("layer", "Net", "a", "forward"), Part("idle", cause="input")
    gap = Part("idle", "Net", "a", "forward", "host")
    parts = {work: 100, wait: 50, gap: 60, REMAINDER: 30}
    assert correct(parts, 180).parts == {work: 100, wait: 50, gap: 20, REMAINDER: 10}
    shrunk = correct(parts, 120)
    assert shrunk.all_scaled
    assert shrunk.parts == {work: 50, wait: 25, gap: 30, REMAINDER: 15}
    assert correct({work: 100}, 130).parts == {work: 100, REMAINDER: 30}


def test_the_update_is_shared_by_parameters() -> None:
    step = StepParts(step=0, begin_ns=0, end_ns=101, parts={Part("layer", phase="update"): 101})
    modules = [{"root": "N", "layer": name, "parameters": n} for name, n in (("a", 1), ("b", 0))]
    share_update(step, [*modules, {"root": "N", "layer": "c", "parameters": 3}])
    assert step.parts == {
        Part("layer", "N", "a", "update"): 25,
        Part("layer", "N", "c", "update"): 76,
    }


def test_a_copy_that_no_optimizer_changes_has_no_update() -> None:
    step = StepParts(step=0, begin_ns=0, end_ns=100, parts={Part("layer", phase="update"): 100})
    told = {"parameters": 8, "gradient_bytes": 32}
    header = parse_header(
        {
            "modules": [
                {"root": "Net", "layer": "", **told, "updated": 4},
                {"root": "Older", "layer": "", **told},
                {"root": "Lent", "layer": "", **told, "updated": 0},
                {"root": "Average", "layer": "", "parameters": 8},
            ]
        }
    )
    share_update(step, header.modules)
    assert step.parts == {
        Part("layer", "Net", "", "update"): 33,
        Part("layer", "Older", "", "update"): 67,
    }


def steps_frame(times: list[float]) -> pl.DataFrame:
    starts = [float(10 * n) for n in range(len(times))]
    return pl.DataFrame({"step": range(len(times)), "start_s": starts, "step_s": times})


def test_the_untraced_step_is_the_median_near_the_window() -> None:
    times = [9.0] * 10 + [0.2] * 400 + [0.1] * 400
    steps = steps_frame(times)
    assert untraced_step_ns(steps, [(600, 620)], 602, 619) == 100_000_000
    assert untraced_step_ns(steps, [(200, 210)], 202, 209) == 200_000_000
    assert untraced_step_ns(steps_frame([0.3, 0.1, 0.1]), [(1, 2)], 1, 2) == 300_000_000
    assert untraced_step_ns(steps_frame([0.1]), [(0, 0)], 0, 0) is None


def test_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="weights"):
        share(3, [0, 0])
