from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from trainload.analyse.attribution import LayerMemory, LayerNode, RankLayers, WindowCost, advise


def node(layer: str, forward_s: float) -> LayerNode:
    return LayerNode(
        root="Net", layer=layer, class_name=None, depth=1, forward_s=forward_s, backward_s=0.0,
        update_s=0.0, idle_s=0.0, inclusive_s=forward_s, calls=1.0, memory=None, energy=None,
    )  # fmt: skip


def rank(number: int = 0, nodes: tuple[LayerNode, ...] = (), **parts: float) -> RankLayers:
    named = {name.replace("idle_", "idle: "): time for name, time in parts.items()}
    fields: dict[str, Any] = {"traced_step_s": 1.0, "corrected": True, "busy_s": 1.0}
    return RankLayers(
        rank=number, device="cpu", step_s=sum(named.values()), explained_fraction=1.0,
        parts=named, hidden_communication_s=0.0, nodes=nodes, rows=pl.DataFrame(),
        cost=WindowCost(windows=1, cost_s=0.0, fraction=None, budget=None), notes=(), **fields,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("part", "topic", "enough"),
    [
        ("input", "input_wait", 0.10),
        ("idle_input", "input_wait", 0.10),
        ("idle_host", "host_bound", 0.15),
        ("idle_synchronise", "synchronising", 0.05),
        ("copy", "copies", 0.10),
        ("communication", "communication", 0.20),
        ("update", "update_heavy", 0.25),
        ("remainder", "remainder", 0.05),
    ],
)
def test_a_part_is_worth_a_word_from_its_threshold_on(part: str, topic: str, enough: float) -> None:
    assert advise([rank(**{part: enough - 0.01, "forward": 1.01 - enough})]) == ()
    (advice,) = advise([rank(**{part: enough + 0.01, "forward": 0.99 - enough})])
    assert (advice.topic, advice.subject) == (topic, None)
    assert advice.fraction == pytest.approx(enough + 0.01)


def test_the_largest_share_comes_first() -> None:
    found = advise([rank(input=0.3, copy=0.2, idle_host=0.4, forward=0.1)])
    assert [advice.topic for advice in found] == ["host_bound", "input_wait", "copies"]


def test_a_straggler_is_the_rank_with_the_least_waiting() -> None:
    ranks = [rank(0, forward=0.5, communication=0.5), rank(1, forward=0.9, communication=0.1)]
    topics = {advice.topic: advice for advice in advise(ranks)}
    assert topics["straggler"].subject == "rank 1"
    assert topics["straggler"].fraction == pytest.approx(0.4)
    assert topics["communication"].subject == "rank 0"


def test_one_layer_dominates_only_among_several() -> None:
    nodes = node("a", 0.6), node("b", 0.2), node("c", 0.2)
    (advice,) = advise([rank(nodes=nodes, forward=1.0)])
    assert (advice.topic, advice.subject) == ("dominant_layer", "a")
    assert advise([rank(nodes=nodes[:2], forward=1.0)]) == ()


def test_nothing_is_said_of_no_time() -> None:
    assert advise([rank()]) == ()
    assert advise([]) == ()


def test_one_layer_may_hold_most_of_the_memory() -> None:
    def holding(layer: str, activation_bytes: int | None) -> LayerNode:
        memory = LayerMemory(
            parameters=1, parameter_bytes=4, gradient_bytes=None, optimizer_bytes=None,
            activation_bytes=activation_bytes, peak_bytes=None,
        )  # fmt: skip
        return replace(node(layer, 0.1), memory=memory)

    nodes = holding("a", 88), holding("b", None), holding("c", 0)
    (advice,) = advise([rank(nodes=nodes, forward=1.0)])
    assert (advice.topic, advice.subject, advice.fraction) == ("memory_heavy", "a", 0.92)
