"""What differed around two sides, and thresholds for CI."""

import json

import pytest

from compare_samples import make, noisy, side
from trainload.analyse.compare import Known, Side, compare_sides, surroundings_of
from trainload.analyse.compare.gates import parse_gate
from trainload.errors import UsageError
from trainload.record import parse_manifest
from trainload.record.figures import RunFigures


def differences(a, b):
    found = compare_sides(a, b, Known())
    return found.configuration, found.environment


def test_only_what_differs_is_told_loudest_first_and_the_rest_counted():
    a = side("a", [1.0, 1.0], facts={"batch_size": 64, "epochs": 3, "zeta": 1, "model": "mlp"})
    b = side("b", [1.0, 1.0], facts={"batch_size": 128, "epochs": 3, "zeta": 2, "model": "cnn"})
    configuration, _ = differences(a, b)
    assert [one.name for one in configuration.differing] == ["model", "batch_size", "zeta"]
    assert configuration.equal == 1
    assert (configuration.differing[1].a, configuration.differing[1].b) == ("64", "128")


def test_a_scripts_content_is_told_by_a_few_letters_and_does_not_part_cells():
    one, other = ({"script.sha256": letter * 64} for letter in "ab")
    configuration, _ = differences(side("a", [1.0], facts=one), side("b", [1.0], facts=other))
    assert configuration.differing[0].a == "a" * 12
    runs = (make("1", step_s=1.0, facts=one), make("2", step_s=1.0, facts=other))
    mixed = Side(name="m", runs=runs)
    configuration, _ = differences(mixed, side("b", [1.0], facts=other))
    assert configuration.differing[0].a == f"{'a' * 12} | {'b' * 12}"


def test_circumstances_differ_from_a_stated_size_on():
    def loaded(name, load, clock_hz, version="2.1"):
        around = {"other load, share of all cores": load, "clock of gpu0": clock_hz,
                  "framework_version": version, "machine kernel": "6.1"}  # fmt: skip
        return side(name, [1.0, 1.0], surroundings=around)

    _, environment = differences(loaded("a", 0.05, 1.5e9), loaded("b", 0.09, 1.45e9))
    assert environment.differing == () and environment.equal == 4
    _, environment = differences(loaded("a", 0.05, 1.5e9), loaded("b", 0.6, 1.2e9, "2.2"))
    names = [one.name for one in environment.differing]
    assert names == ["other load, share of all cores", "clock of gpu0", "framework_version"]
    assert environment.differing[0].b == "60.0 %" and environment.differing[1].b == "1200 MHz"


def test_a_record_tells_its_surroundings():
    document = {
        "format": 1, "run_id": "x", "trainload_version": "0.1.0", "environment": {"OMP": "1"},
        "software": {"framework_version": "2.1", "cudnn": "9"},
        "setting": {"obtained": {"threads": 2, "cores": [0, 1], "device": "cpu"}},
    }  # fmt: skip
    metrics = {"host_cpu_load_fraction": 0.9, "run_cpu_load_fraction": 0.4, "training_s": 10.0,
               "cgroup_cpu_throttled_s": 2.0, "host_cpu0_clock_hz": 2e9,
               "host_cpu1_clock_hz": 1e9}  # fmt: skip
    figures = RunFigures(run_sha256="0", run_id="x", metrics=metrics)
    found = surroundings_of(parse_manifest(json.dumps(document), "test"), figures, 0.25)
    assert found["software cudnn"] == "9" and found["framework_version"] == "2.1"
    assert found["obtained threads"] == "2" and found["variable OMP"] == "1"
    assert found["other load, share of all cores"] == pytest.approx(0.5)
    assert found["quota held it back, share of training"] == pytest.approx(0.2)
    assert found["clock of processor"] == 1.5e9 and found["throttled, share of samples"] == 0.25


@pytest.mark.parametrize(
    ("text", "factor", "fails"),
    [
        ("slower:5%", 1.2, True),
        ("slower:5", 1.03, False),
        ("slower:30%", 1.2, False),
        ("faster:5%", 0.8, True),
        ("faster:5%", 1.2, False),
        ("step_s:5%", 1.2, True),
        ("examples_per_s:5%", 1.2, True),
        ("examples_per_s:+5%", 1.2, False),
        ("step_s:-5%", 0.8, True),
    ],
)
def test_a_threshold_fails_only_where_the_whole_interval_is_beyond(text, factor, fails):
    import random

    draw = random.Random(1)
    gate = parse_gate(text)

    def runs(name, scale):
        values = noisy(draw, scale, 6, 0.005)
        made = [make(f"{name}{i}", step_s=v, examples_per_s=1 / v) for i, v in enumerate(values)]
        return Side(name=name, runs=tuple(made))

    found = compare_sides(runs("a", 1.0), runs("b", factor), Known(), first=[gate.metric])
    told = list(gate.failures(found))
    assert bool(told) is fails and all(text in line for line in told)


def test_an_interval_that_reaches_over_the_threshold_does_not_fail():
    a, b = side("a", [1.0, 1.15, 0.9]), side("b", [1.3, 1.1, 1.5])
    found = compare_sides(a, b, Known())
    assert found.metrics[0].percent > 5 and not list(parse_gate("slower:5%").failures(found))
    single = compare_sides(side("a", [1.0]), side("b", [9.0]), Known())
    assert not list(parse_gate("slower:5%").failures(single))


def test_thresholds_that_cannot_be_meant_are_refused():
    for text in ("slower", "slower:x", ":5%", "slower:5%%"):
        with pytest.raises(UsageError, match="write slower:5%"):
            parse_gate(text)
    found = compare_sides(side("a", [1.0]), side("b", [1.0]), Known())
    with pytest.raises(UsageError, match="no run tells nonsense"):
        list(parse_gate("nonsense:5%").failures(found))
