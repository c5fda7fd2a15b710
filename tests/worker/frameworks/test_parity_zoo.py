"""Every model of the zoo gives the same numbers in every framework as in torch."""

import json
from typing import Any

import pytest
from framework_runs import OTHERS, case, chain, model
from worker_specs import make_graph

from published_sizes import PARAMETERS
from trainload.workload import MODELS
from trainload_worker.protocol.spec import parse_spec

numpy = pytest.importorskip("numpy", reason="needs numpy")
pytest.importorskip("torch", reason="needs torch, the other side of every comparison")
from parity_cases import computing, difference, small  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Computes a group of cases once for each framework."""
    groups = {
        "zoo": {name: case(small(name), rows=2, steps=0) for name in MODELS},
        "counts": {name: case(model(name, classes=1000), rows=0) for name in PARAMETERS},
    }
    groups["counts"]["lenet5"] = case(model("lenet5"), rows=0)
    return computing(groups, tmp_path_factory)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("framework", OTHERS)
def test_the_zoo_gives_the_same_logits_and_parameters(results: Any, framework: str) -> None:
    found, expected = results("zoo", framework), results("zoo", "torch")
    for name in MODELS:
        assert (found[f"{name}/parameters"] == expected[f"{name}/parameters"]).all(), name
        assert difference(found[f"{name}/before"], expected[f"{name}/before"]) < 1e-4, name


@pytest.mark.parametrize("framework", ("torch", *OTHERS))
def test_parameters_are_as_many_as_published(results: Any, framework: str) -> None:
    found = results("counts", framework)
    for name, parameters in {**PARAMETERS, "lenet5": 61_706}.items():
        assert int(found[f"{name}/parameters"]) == parameters, name


@pytest.mark.parametrize("name", MODELS)
def test_drawn_parameters_are_those_of_the_graph(name: str) -> None:
    from trainload_worker.training.initial_weights import parameter_shapes

    graph = small(name)
    document = case(graph)["spec"]
    shapes = parameter_shapes(parse_spec(json.dumps(document)).graph)
    assert shapes == {layer.name: dict(layer.parameter_shapes) for layer in graph.layers}


def test_weights_are_drawn_by_the_seed_and_the_name_alone() -> None:
    from trainload_worker.training.initial_weights import draw_parameters

    def draw(units: tuple[int, ...], seed: int) -> dict[str, Any]:
        document = {
            **case(chain((75,), ("linear", {"units": 5})))["spec"],
            "graph": make_graph(units=units),
        }
        return dict(draw_parameters(parse_spec(json.dumps(document)).graph, seed))

    first, again, other = draw((16,), 1), draw((16,), 1), draw((16,), 2)
    name = "hidden1.linear.weight"
    assert (first[name] == again[name]).all() and (first[name] != other[name]).any()
    assert first[name].dtype == numpy.float32 and first[name].shape == (16, 75)
    bound = (6 / 75) ** 0.5
    assert 0.99 * bound < numpy.abs(first[name]).max() <= bound
    assert not first["hidden1.linear.bias"].any()
    assert (draw((16, 8), 1)[name] == first[name]).all()
