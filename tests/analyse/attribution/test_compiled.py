"""Kernels of compiled graphs: whose they are, and that shares still sum exactly."""

from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse.attribution.compiled import PREFIX, Compiled, parse_graphs
from trainload.analyse.attribution.partition import Part, StepParts
from trainload.analyse.attribution.timeline import Owner

MODULES = [{"root": "GPT", "layer": layer} for layer in ("", "h", "h.0", "h.0.fc", "h.1", "h.1.fc")]
ROOT = Owner("layer", "GPT", "", "forward")
WHOLE = {
    "key": "k1",
    "calls": [
        ["triton_a", [["self", "h.0.fc", 0.25], ["self", "h.1.fc", 0.75]]],
        ["mm", [["self", "h.0.fc", 1.0]]],
        ["cpp_b", [["self", "h.1", 1.0]]],
        ["mm", [["self", "h.1.fc", 1.0]]],
        ["triton_loss", []],
    ],
}
BLOCK = {"key": "k2", "calls": [["mm", [["self", "fc", 1.0]]]]}


def enter(compiled, key, caller=ROOT):
    return compiled.enter(f"{PREFIX}{key} ##", caller)


def layer(path, phase="forward"):
    return Owner("layer", "GPT", path, phase)


def test_calls_are_taken_in_order_and_kernels_without_events_between_them():
    compiled = Compiled(parse_graphs([WHOLE]), MODULES)
    region = enter(compiled, "k1")
    fused = region.take("triton_a")
    assert dict(compiled.fused[int(fused.layer)]) == {
        layer("h.0.fc"): 250_000,
        layer("h.1.fc"): 750_000,
    }
    assert region.take("aten::mm") == layer("h.0.fc")
    assert region.between() == layer("h.1")
    assert region.take("aten::mm") == layer("h.1.fc")
    assert region.take("aten::copy_") is None
    assert region.take("triton_loss") == ROOT


def test_equal_blocks_share_a_graph_in_the_order_of_the_model():
    compiled = Compiled(parse_graphs([BLOCK]), MODULES)
    forward = [enter(compiled, "k2").take("aten::mm").layer for _ in range(4)]
    back = ROOT._replace(phase="backward")
    backward = [enter(compiled, "k2", back).take("aten::mm").layer for _ in range(2)]
    assert forward == ["h.0.fc", "h.1.fc", "h.0.fc", "h.1.fc"]
    assert backward == ["h.1.fc", "h.0.fc"]


def test_an_unknown_graph_counts_to_its_caller_and_is_told():
    compiled = Compiled({}, MODULES)
    assert enter(compiled, "other") is None
    assert compiled.unknown


@given(st.integers(0, 10**12), st.integers(0, 5))
def test_shared_time_sums_to_the_whole(time_ns, calls):
    compiled = Compiled(parse_graphs([WHOLE]), MODULES)
    fused = enter(compiled, "k1").take("triton_a")
    parts = StepParts(step=0, begin_ns=0, end_ns=time_ns)
    part = Part("layer", fused.root, fused.layer, "forward")
    parts.add(part, time_ns)
    parts.calls[part] = calls
    compiled.share_fused(parts)
    assert sum(parts.parts.values()) == time_ns == parts.fused_ns
    assert {one.layer for one in parts.parts} == {"h.0.fc", "h.1.fc"}


def test_what_is_not_of_the_form_is_left_out():
    broken = [None, {"key": 3}, {"key": "a", "calls": [["mm", [["s", "x", 7]]], "mm", ["mm", []]]}]
    assert {key: len(calls) for key, calls in parse_graphs(broken).items()} == {"a": 1}
