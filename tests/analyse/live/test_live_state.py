"""A run so far, of bounded size: curves that thin out, figures, limits, and hostile values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse.live import LiveState, TimeCurve
from trainload.analyse.live.channels import MOST_SERIES, choose_columns
from trainload.analyse.live.sealed import state_of_tables
from trainload.record import load_manifest, open_run
from trainload.record.follow import RunFollower

START_S = 1000.0


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=300))
def test_a_curve_is_bounded_and_keeps_the_mean(readings):
    curve = TimeCurve(most=16)
    for t_s, value in readings:
        curve.add(t_s, value)
    points = curve.points()
    assert 1 <= len(points) <= 16
    values = [value for _, value in readings]
    assert all(min(values) - 1e-6 <= value <= max(values) + 1e-6 for _, value in points)
    assert [t for t, _ in points] == sorted(t for t, _ in points)
    assert curve.latest == values[-1]


def test_a_curve_leaves_out_what_has_no_place():
    curve = TimeCurve()
    for t_s in (-1.0, 1e30, float("inf"), float("nan")):
        curve.add(t_s, 1.0)
    assert curve.points() == () and curve.latest is None


def test_stretches_double_and_their_means_stay_right():
    curve = TimeCurve(width_s=1.0, most=4)
    for second in range(8):
        curve.add(second, float(second))
    assert curve.points() == ((1.0, 0.5), (3.0, 2.5), (5.0, 4.5), (7.0, 6.5))


def test_columns_of_a_chart_are_few():
    columns = [f"gpu{n}_load_fraction" for n in range(9)] + ["host_cpu_load_fraction", "disk_w"]
    chosen = choose_columns(columns)
    assert set(chosen) == {"load"} and len(chosen["load"]) == MOST_SERIES
    assert chosen["load"][0] == "host_cpu_load_fraction"


def followed(path):
    follower = RunFollower(path)
    look = follower.look()
    state = LiveState(look.manifest)
    state.take(look)
    while look.more:
        look = follower.look()
        state.take(look)
    return state


def test_a_run_that_goes_on_in_figures_and_curves(make_run):
    path = make_run(outcome=None, gpu=True)
    view = followed(path).view(now_s=START_S + 1e7)
    assert (view.step, view.epoch, view.epochs) == (300, 2, 3)
    assert view.steps_per_s == pytest.approx(20, rel=0.3)
    assert view.examples_per_s == pytest.approx(view.steps_per_s * 512, rel=1e-6)
    assert 10 < view.elapsed_s < 60  # not by a clock that went on for months
    charts = {chart.name: chart for chart in view.charts}
    assert list(charts) == ["loss", "throughput", "load", "memory", "gpu_memory", "power"]
    assert charts["loss"].series[0].points and charts["loss"].series[1].column == "validation_loss"
    assert charts["power"].series[0].column == "gpu0_power_w"
    assert view.layers is None and "--layers" in view.layers_note and not view.traces


def test_memory_stands_against_its_limit(make_run):
    view = followed(make_run(gpu=True)).view(START_S)
    memory = next(chart for chart in view.charts if chart.name == "memory")
    assert {one.limit for one in memory.series} == {16 * 2**30}


def test_without_a_gpu_its_charts_say_why(make_run):
    charts = {c.name: c for c in followed(make_run()).view(START_S).charts}
    assert "no GPU" in charts["gpu_memory"].missing
    assert "may not be read" in charts["power"].missing


def test_tables_and_lines_tell_the_same(make_run):
    path = make_run(gpu=True)
    lines = followed(path).view(START_S)
    tables = state_of_tables(open_run(path)).view(START_S)
    assert not (path / "events.jsonl").exists()
    assert tables.step == lines.step and tables.loss == pytest.approx(lines.loss)
    assert tables.steps_per_s == pytest.approx(lines.steps_per_s, rel=0.02)
    assert tables.elapsed_s == pytest.approx(lines.elapsed_s)
    for one, other in zip(lines.charts, tables.charts, strict=True):
        assert [s.column for s in one.series] == [s.column for s in other.series]
        for a, b in zip(one.series, other.series, strict=True):
            mean = lambda points: sum(v for _, v in points) / len(points)  # noqa: E731
            assert mean(a.points) == pytest.approx(mean(b.points), rel=0.1)


def test_curves_of_columns_that_went_away_are_forgotten(make_run):
    state = LiveState(load_manifest(make_run()))
    head = ["tick", "t_s", "read_s", "sampler_cpu_s"]
    for number in range(50):
        columns = [*head, *(f"m{number}x{n}_power_w" for n in range(9))]
        state.take_samples(columns, [[0, START_S + number, 0, 0, *range(9)]])
    assert len(state.curves) <= 3 + 4 * MOST_SERIES


def test_a_diverged_loss_is_left_out(make_run):
    view = followed(make_run(nan_from_step=10)).view(START_S)
    assert max(v for _, v in view.charts[0].series[0].points) < 1e6
