"""Programs that train to measure a machine: sizes as stated, conditions met, and a contender."""

import os

import pytest

torch = pytest.importorskip("torch")

from trainload_worker.frameworks.torch.limits import (  # noqa: E402
    complexity,
    holding,
    memorising,
    programs,
    rates,
    trainings,
)
from trainload_worker.frameworks.torch.limits.contender import (  # noqa: E402
    Training,
    make_step,
    rate_of,
    read_training,
)
from trainload_worker.frameworks.torch.limits.contest import Contender, ask_all  # noqa: E402
from trainload_worker.limits import programs as plain  # noqa: E402
from trainload_worker.limits.sampling import Lacking, Place  # noqa: E402
from trainload_worker.protocol.measure import PROGRAMS  # noqa: E402

pytestmark = pytest.mark.framework("torch")
TINY = Training((8, 16, 4), batch=4, samples=16)


@pytest.fixture(autouse=True)
def one_thread():
    """Small operations on several threads wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(trainings, "_sample_s", lambda _place: 0.002)
    monkeypatch.setattr(complexity, "_SAMPLE_S", 0.001)
    monkeypatch.setattr(rates, "_SAMPLE_S", 0.001)
    monkeypatch.setattr(rates, "_CPU_SIDE", 64)
    cores = tuple(sorted(os.sched_getaffinity(0)))
    return Place(folder=str(tmp_path), cores=cores, quick=True, check=lambda: None)


def levels(found, name):
    return {one.at[name] for one in found.readings}


def test_every_program_has_one_place():
    placed = [*plain._COMPILED, *plain._PLAIN, *programs.PROGRAMS]
    assert sorted(placed) == sorted(PROGRAMS)


@pytest.mark.parametrize("k1", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("task", ["labels", "values"])
def test_a_network_has_the_redundancy_it_is_named_by(k1, task):
    layers = memorising.size_network(k1, task)
    samples, inputs, _ = memorising._SIZES[task]
    network = sum(p.numel() for p in memorising.make_network(layers).parameters())
    assert Training(layers).weights == network
    assert network / (samples * inputs) == pytest.approx(k1, rel=0.08)


def test_labels_are_remembered_where_there_is_room(place, monkeypatch):
    sizes = {"labels": (32, 32, 10), "values": (32, 32, 32)}
    monkeypatch.setattr(memorising, "_SIZES", sizes)
    monkeypatch.setattr(memorising, "_STEPS", {True: 300})
    monkeypatch.setattr(memorising, "_K1", (0.02, 10.0))
    found = memorising.measure_memory(place)
    share = {(one.at["task"], one.at["k1"]): one.values for one in found.readings}
    assert share["labels", "10"] == (1.0,) * 3
    assert max(share["values", "0.02"]) < 0.5


def test_the_networks_of_a_forward_pass_compare_what_they_say():
    weights = {name: Training(layers).weights for name, layers in complexity._NETWORKS.items()}
    assert weights["deep"] == pytest.approx(weights["wide"], rel=0.01)


@pytest.mark.parametrize(
    ("measure", "name", "wanted"),
    [
        (complexity.measure_forward, "on", {"one thread", "parallel"}),
        (rates.measure_matrices, "dtype", {"float32", "bfloat16"}),
        (trainings.measure_threads, "network", {"small", "large"}),
        (trainings.measure_batches, "batch", {"16", "64", "256", "1024"}),
        (trainings.measure_need, "network", {"perceptron", "convolutions"}),
    ],
)
def test_each_condition_has_its_samples(place, measure, name, wanted):
    found = measure(place)
    assert found.program in PROGRAMS and levels(found, name) >= wanted
    assert all(len(one.values) == 5 and min(one.values) > 0 for one in found.readings)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(
    "measure", [rates.measure_copies, holding.measure_resident, holding.measure_largest]
)
def test_without_a_gpu_it_is_said(place, measure):
    with pytest.raises(Lacking, match="no GPU"):
        measure(place)


def test_a_rate_is_that_of_one_step_at_least():
    steps = []
    assert rate_of(lambda: steps.append(0), 0.0) > 0
    assert len(steps) == 2


def test_one_core_trains_one_at_a_time(place):
    alone = Place(folder=place.folder, cores=(0,), quick=True, check=place.check)
    with pytest.raises(Lacking, match="two cores"):
        trainings.measure_same(alone)


def test_a_contender_answers_what_it_is_asked():
    given_back = {"variables": holding.GIVEN_BACK}
    with Contender(TINY, **given_back) as one, Contender(TINY) as other:
        assert ask_all([one], {"do": "rate", "seconds": 0.01})[0] > 0
        losses = ask_all([one, other], {"do": "loss", "steps": 3})
        assert losses[0] == losses[1] and float.fromhex(losses[0]) > 0
        large = {"layers": [512, 2048, 2048, 10], "samples": 64, "batch": 32}
        asked = {"do": "peak", "training": large}
        plain_bytes, more = (
            ask_all([one], {**asked, "reference": reference})[0] for reference in (False, True)
        )
        copy = 4 * read_training(large).weights
        assert more - plain_bytes == pytest.approx(copy, rel=0.4)
        assert plain_bytes > 3 * copy
        other._process.kill()
        other._process.wait()
        with pytest.raises(Lacking, match="ended early"):
            ask_all([other], {"do": "rate", "seconds": 0.01})


def test_steps_go_round_the_sample():
    step = make_step(Training((4, 4), batch=3, samples=7))
    assert all(torch.isfinite(step()) for _ in range(6))
