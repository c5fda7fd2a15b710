"""Jamgharyan's expressions against values worked by hand."""

import pytest
from hand_graphs import graph_of, small_perceptron

from trainload.errors import UsageError
from trainload.estimate import (
    Sample,
    algorithm_variables,
    estimate_complexity,
    estimate_memory_cells,
    estimate_redundancy,
)
from trainload.estimate.counts.neurons import _RULES
from trainload.workload import MODELS, Optimizer, build_model
from trainload.workload.graph.kinds import KINDS

SAMPLE = Sample(samples=100, inputs=4, outputs=3)


def test_memory_cells_by_hand():
    # 4·5 + 5 weights and thresholds, then 5·3 + 3: N_w = 43.
    weights = small_perceptron().parameters
    assert weights == 43
    # Adam keeps two moments beside the gradient: N_v = 3·43 = 129.
    variables = algorithm_variables(weights, Optimizer(name="adam"))
    assert variables == 129
    found = estimate_memory_cells(SAMPLE, weights=weights, variables=variables)
    # 1·100·(4 + 3) + 1·43 + 1·129 = 700 + 43 + 129
    assert (found.data_cells, found.weight_cells, found.variable_cells) == (700, 43, 129)
    assert found.cells == 872


def test_every_eta_weighs_its_own_term():
    found = estimate_memory_cells(
        SAMPLE,
        weights=43,
        variables=129,
        cells_per_datum=2,
        cells_per_weight=3,
        cells_per_variable=0.5,
    )
    # 2·700 + 3·43 + 0.5·129 = 1400 + 129 + 64.5
    assert found.cells == 1593.5


@pytest.mark.parametrize(
    ("optimizer", "values"),
    [
        (Optimizer(name="sgd", momentum=0.0), 1),
        (Optimizer(name="sgd", momentum=0.9), 2),
        (Optimizer(name="rmsprop"), 2),
        (Optimizer(name="adagrad"), 2),
        (Optimizer(name="adam"), 3),
        (Optimizer(name="adamw"), 3),
    ],
)
def test_variables_are_gradients_and_optimizer_state(optimizer, values):
    assert algorithm_variables(10, optimizer) == 10 * values


def test_complexity_of_a_perceptron_by_hand():
    # Five neurons of 4 inputs: 4 products, 3 sums, 1 threshold = 8; an activation each = 1;
    # three neurons of 5 inputs: 10. T1 = 5·8 + 5·1 + 3·10 = 75, T2 = 8 + 1 + 10 = 19.
    found = estimate_complexity(small_perceptron())
    assert (found.sequential_operations, found.parallel_operations) == (75, 19)
    assert found.neurons == 13


def test_without_thresholds_there_is_one_addition_less():
    # 5·(2·4 - 1) = 35
    found = estimate_complexity(graph_of([4], ("linear", {"units": 5, "bias": False})))
    assert (found.sequential_operations, found.parallel_operations) == (35, 7)


def test_complexity_of_an_image_network_by_hand():
    graph = graph_of(
        [1, 4, 4],
        ("conv2d", {"channels": 2, "kernel": 3}),
        ("max_pool2d", {"kernel": 2, "stride": 2}),
        ("flatten", {}),
    )
    # 2×2×2 neurons of 9 inputs and a threshold: 8·18 = 144. Two windows of 4: 3 comparisons each.
    found = estimate_complexity(graph)
    assert [layer.neurons for layer in found.layers] == [8, 2]
    assert (found.sequential_operations, found.parallel_operations) == (144 + 6, 18 + 3)


def test_neurons_of_one_layer_can_differ():
    # 5 rows in 3 cells: rows 0-1, 1-3 and 3-4, so 2, 3 and 2; the middle cell has 3·3 values.
    graph = graph_of([1, 5, 5], ("adaptive_avg_pool2d", {"size": 3}))
    found = estimate_complexity(graph)
    assert (found.sequential_operations, found.parallel_operations) == (7 * 7, 9)


def test_the_steps_of_an_lstm_wait_for_each_other():
    # A unit at a step: 4 sums of 2·(2 + 4) = 48, and 9; three steps in turn, four units.
    found = estimate_complexity(graph_of([3, 2], ("lstm", {"hidden": 4})))
    assert found.parallel_operations == 3 * 57
    assert found.sequential_operations == 4 * 3 * 57
    assert found.neurons == 12


def test_attention_by_hand():
    # Width 4, 2 steps, 2 heads of 2. Projections 24·8, scores 8·4, softmax 8·4, values 8·3,
    # output 8·8: 192 + 32 + 32 + 24 + 64 = 344; in turn 8 + 4 + 4 + 3 + 8 = 27.
    found = estimate_complexity(graph_of([2, 4], ("self_attention", {"heads": 2})))
    assert (found.sequential_operations, found.parallel_operations) == (344, 27)


def test_the_network_of_the_load_analysis():
    # 75 → 512 → 512 → 512 → 10: 512·150 + 2·512·1024 + 10·1024 and 3·512 activations.
    found = estimate_complexity(build_model("mlp", MODELS["mlp"].options()))
    assert found.sequential_operations == 76_800 + 1_048_576 + 10_240 + 1_536
    assert found.parallel_operations == 150 + 1024 + 1024 + 1024 + 3


@pytest.mark.parametrize(
    ("weights", "k1", "verdict"),
    [
        (43, 0.1075, "cannot hold the sample"),  # 43 / (100·4)
        (400, 1.0, "can hold the sample"),
        (401, 1.0025, "redundant"),
        (399, 0.9975, "cannot hold the sample"),
    ],
)
def test_redundancy_by_hand(weights, k1, verdict):
    found = estimate_redundancy(SAMPLE, weights=weights)
    assert found.k1 == pytest.approx(k1) and found.verdict == verdict


def test_the_verdict_does_not_suffer_from_rounding():
    huge = Sample(samples=10**9, inputs=10**9, outputs=1)
    assert estimate_redundancy(huge, weights=10**18 + 1).verdict == "redundant"
    assert estimate_redundancy(huge, weights=10**18 - 1).verdict == "cannot hold the sample"


def test_numbers_that_cannot_be_meant():
    with pytest.raises(UsageError, match="more than 1 weight"):
        estimate_redundancy(SAMPLE, weights=1)
    with pytest.raises(UsageError, match="samples must be at least 1"):
        estimate_redundancy(Sample(samples=0, inputs=4, outputs=3), weights=43)
    with pytest.raises(UsageError, match="variables must be at least 0"):
        estimate_memory_cells(SAMPLE, weights=43, variables=-1)
    with pytest.raises(UsageError, match="cells for each weight"):
        estimate_memory_cells(SAMPLE, weights=43, variables=1, cells_per_weight=float("nan"))


def test_every_kind_has_its_neurons():
    assert set(_RULES) == set(KINDS)


@pytest.mark.parametrize("name", MODELS)
def test_parallel_hardware_never_takes_longer(name):
    found = estimate_complexity(build_model(name, MODELS[name].options()))
    assert 0 < found.parallel_operations <= found.sequential_operations
