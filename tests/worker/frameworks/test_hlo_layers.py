"""Whose an instruction of a compiled program is; needs no framework.

The program kept here is a real one, a step of SGD as jaxlib 0.10 compiled it for two cores: a
convolution and tanh, a convolution and relu, flatten, a linear layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trainload_worker.frameworks.xla.layers import Owner, find_owners, read_scope
from trainload_worker.frameworks.xla.profile import label_profile, read_threads
from trainload_worker.frameworks.xla.text import count_flop, parse_program, unescape
from trainload_worker.windows.labelled_events import LabelledWindow

PROGRAM = Path(__file__).with_name("programs") / "two_convolutions.hlo.txt"
LAYERS = ("stem.conv", "stem.tanh", "body.conv", "body.relu", "flatten", "head")
LOOP = """HloModule jit_step

%fused (p.0: f32[4,3], p.1: f32[3]) -> f32[4,3] {
  %p.0 = f32[4,3]{1,0} parameter(0)
  %p.1 = f32[3]{0} parameter(1)
  ROOT %copied = f32[4,3]{1,0} copy(%p.0)
}

%body (state: (s32[], f32[4,3])) -> (s32[], f32[4,3]) {
  %state = (s32[], f32[4,3]{1,0}) parameter(0)
  %count = s32[] get-tuple-element(%state), index=0
  %values = f32[4,3]{1,0} get-tuple-element(%state), index=1
  %next = s32[] add(%count, %count)
  %rest = f32[4,3]{1,0} fusion(%values, %values), kind=kLoop, calls=%fused
  ROOT %both = (s32[], f32[4,3]{1,0}) tuple(%next, %rest)
}

%condition (state.1: (s32[], f32[4,3])) -> pred[] {
  %state.1 = (s32[], f32[4,3]{1,0}) parameter(0)
  %count.1 = s32[] get-tuple-element(%state.1), index=0
  ROOT %less = pred[] compare(%count.1, %count.1), direction=LT
}

ENTRY %main (inputs: f32[4,3]) -> f32[4,3] {
  %inputs = f32[4,3]{1,0} parameter(0), metadata={op_name="inputs"}
  %zero = s32[] constant(0)
  %text = s32[] constant(7), metadata={op_name="a \\"quoted\\" (name"}
  %start = (s32[], f32[4,3]{1,0}) tuple(%zero, /*index=1*/%inputs)
  %while.1 = (s32[], f32[4,3]{1,0}) while(%start), condition=%condition, body=%body, \
metadata={op_name="jit(step)/jvp(lstm)/while"}, backend_config={"known_trip_count":{"n":"5"}}
  ROOT %given = f32[4,3]{1,0} get-tuple-element(%while.1), index=1
}
"""


@pytest.fixture(scope="module")
def owners() -> dict[str, Any]:
    return find_owners(PROGRAM.read_text(), LAYERS)


def layer(name: str, phase: str) -> Owner:
    return Owner("layer", name, phase)


@pytest.mark.parametrize(
    ("scope", "owner"),
    [
        ("jit(step)/jvp(stem.conv)/add", layer("stem.conv", "forward")),
        ("jit(step)/transpose(jvp(stem.conv))/add", layer("stem.conv", "backward")),
        ("jit(step)/jvp(body.relu)/jit(relu)/max", layer("body.relu", "forward")),
        ("jit(step)/jvp(head)/while/body/closed_call/add", layer("head", "forward")),
        ("jit(step)/head/add", layer("head", "forward")),
        ("jit(step)/jvp(trainload:loss)/exp", Owner("loss", None, "forward")),
        ("jit(step)/transpose(jvp(trainload:loss))/div", Owner("loss", None, "backward")),
        ("jit(step)/trainload:update/add", Owner("update", None, "update")),
        ("jit(step)/jvp(trainload:input)/sub", Owner("input", None, "forward")),
        ("jit(step)/jvp(stem)/add", None),
        ("jit(step)/head", None),
        ("jit(step)/jvp()/while/body/head", None),
        ("jit(step)/jvp()/jit(_threefry_fold_in)/add", None),
        ("inputs", None),
        ("", None),
    ],
)
def test_a_scope_tells_the_layer_and_the_pass(scope: str, owner: Owner | None) -> None:
    assert read_scope(scope, LAYERS) == owner


def test_names_are_read_as_they_were_written() -> None:
    assert unescape(r"jvp(\303\251t\303\251)/it\'s \"a\" \\ b") == 'jvp(été)/it\'s "a" \\ b'
    assert read_scope(unescape(r"jvp(\303\251t\303\251.conv)"), ["été.conv"]) is not None


@pytest.mark.parametrize(
    ("instruction", "name", "phase"),
    [
        ("conv_general_dilated.6", "body.conv", "forward"),
        ("ynn_fusion.1", "head", "forward"),
        ("dot", "head", "backward"),
        # No scope: a convolution whose result only the update takes is a weight's gradient.
        ("convolution", "body.conv", "backward"),
        ("convolution.2", "stem.conv", "backward"),
        # Copies and turned copies belong to what they are made for.
        ("copy.24", "head", "forward"),
        ("transpose_copy_fusion.1", "stem.conv", "backward"),
        ("transpose_copy_fusion.3", "body.conv", "backward"),
        # An update is of the layer whose parameters it changes.
        ("multiply_add_fusion.4", "head", "update"),
        ("multiply_add_fusion.9", "body.conv", "update"),
    ],
)
def test_an_instruction_has_one_owner(
    owners: dict[str, Any], instruction: str, name: str, phase: str
) -> None:
    assert owners[instruction] == {layer(name, phase): 1.0}


def test_what_is_no_layer_s_is_told_apart(owners: dict[str, Any]) -> None:
    assert owners["broadcast_select_fusion"] == {Owner("loss", None, "forward"): 1.0}
    assert owners["wrapped_scatter"] == {Owner("loss", None, "backward"): 1.0}
    assert owners["transpose_copy_fusion.5"] == {Owner("input", None, "forward"): 1.0}
    assert owners["wrapped_add"] == {Owner("update", None, "update"): 1.0}


def test_a_fusion_is_shared_out_by_work(owners: dict[str, Any]) -> None:
    # One addition and one tanh, which counts ten, for each value.
    shares = owners["add_tanh_fusion"]
    assert shares == {layer("stem.conv", "forward"): 1 / 11, layer("stem.tanh", "forward"): 10 / 11}
    # A comparison is done again for the backward pass: all of it is backward.
    again = owners["copy_select_fusion"]
    assert {owner.phase for owner in again} == {"backward"}
    assert sum(again.values()) == pytest.approx(1.0)
    update = owners["multiply_add_fusion.3"]
    assert {owner.phase for owner in update} == {"backward", "update"}


def test_every_instruction_that_can_run_has_an_owner(owners: dict[str, Any]) -> None:
    entry = next(c for c in parse_program(PROGRAM.read_text()) if c.is_entry)
    for instruction in entry.instructions.values():
        if instruction.opcode not in ("parameter", "constant", "tuple"):
            assert owners[instruction.name], instruction.name


def test_backward_is_twice_the_forward_work(owners: dict[str, Any]) -> None:
    """The gradient by weights and that by inputs cost a product each, as much as the forward."""
    spent: dict[tuple[str | None, str], float] = {}
    called: dict[str, float] = {}
    for computation in parse_program(PROGRAM.read_text()):
        work = {
            instruction.name: count_flop(instruction, computation.instructions, called)
            for instruction in computation.instructions.values()
        }
        called[computation.name] = sum(work.values())
        for name, flop in work.items() if computation.is_entry else ():
            for owner, share in owners[name].items():
                key = owner.layer, owner.phase
                spent[key] = spent.get(key, 0.0) + flop * share
    assert spent["head", "forward"] == pytest.approx(2 * 4 * 216 * 5, rel=0.05)
    assert spent["head", "backward"] == pytest.approx(2 * spent["head", "forward"], rel=0.05)
    # The first layer's input needs no gradient.
    assert spent["stem.conv", "backward"] == pytest.approx(spent["stem.conv", "forward"], rel=0.1)


def test_the_body_of_a_loop_belongs_to_the_loop() -> None:
    found = find_owners(LOOP, ["lstm"])
    own = {layer("lstm", "forward"): 1.0}
    assert found["while.1"] == own
    assert found["next"] == own and found["rest"] == own and found["less"] == own
    assert found["given"] == own


def test_an_odd_text_has_no_owners() -> None:
    assert find_owners("", LAYERS) == {}
    assert find_owners("HloModule x\n\nnothing at all\n", LAYERS) == {}


@dataclass
class Event:
    name: str
    start_ns: float
    duration_ns: float
    stats: tuple[tuple[str, Any], ...] = ()


@dataclass
class Line:
    events: list[Event]


@dataclass
class Plane:
    lines: list[Line]


@dataclass
class Profile:
    planes: list[Plane]


def op(name: str, start: float, duration: float) -> Event:
    return Event(name, start, duration, (("hlo_op", name), ("hlo_module", "jit_step")))


def task(edge: str, at: float, number: int = -1) -> Event:
    key = {"Record": "_p", "StartRegion": "_c"}.get(edge)
    return Event(f"ThreadpoolListener::{edge}", at, 0, ((key, number),) if key else ())


def make_profile() -> Any:
    """One step: `a` gives half its work to another thread, which then goes on to run `b`."""
    host = [
        Event("trainload.step:6", 0, 10),
        Event("trainload.input:32", 1_000, 2_000),
        Event("DevicePut", 4_000, 1_000),
        task("Record", 6_000, 1),
        Event("trainload.step:7", 200_000, 10),
    ]
    first = [
        task("StartRegion", 9_000, 1),
        Event("ThunkExecutor::Execute", 9_500, 40_500),
        op("a", 10_000, 40_000),
        task("Record", 11_000, 2),
        Event("end: a", 50_000, 10),
        task("StopRegion", 51_000),
    ]
    second = [
        task("StartRegion", 20_000, 2),
        Event("ThunkExecutor::Execute", 60_000, 60_000),
        op("b", 100_000, 20_000),
        task("StopRegion", 130_000),
    ]
    return Profile([Plane([Line(events) for events in (host, first, second)])])


def labelled(window: LabelledWindow, category: str) -> Iterator[tuple[Any, ...]]:
    for event in sorted(window._events, key=lambda event: event["ts"]):
        if event["cat"] == category:
            yield event["name"], event["ts"], event["dur"], event["tid"]


def test_tasks_of_other_threads_belong_to_the_instruction_that_gave_them() -> None:
    def owner_of(rows: int, name: str) -> dict[str, Any]:
        assert rows == 32
        return {"layer": name, "phase": "forward"}

    window = label_profile(read_threads(make_profile()), owner_of)
    operations = list(labelled(window, "trainload_op"))
    assert operations == [("a", 10, 40, 1), ("a", 20, 40, 2), ("b", 100, 20, 2), ("a", 120, 10, 2)]
    assert list(labelled(window, "trainload_range")) == [
        ("take rows", 1, 2, 0),
        ("launch", 3, 7, "launch"),
        ("hand rows over", 4, 1, 0),
        ("way to b", 60, 40, "way"),
    ]
    marks = [event[:2] for event in labelled(window, "user_annotation")]
    # The step ends with its last instruction; until the next mark comes what a window adds.
    assert marks == [("trainload.step:6", 0), ("trainload.step:7", 130), ("trainload.step:7", 200)]


def test_a_smaller_last_batch_has_a_program_of_its_own() -> None:
    """Its instructions have the same names and may be others; the rows just taken tell."""
    events = [
        Event("trainload.step:6", 0, 10),
        Event("trainload.input:32", 1_000, 2_000),
        op("a", 10_000, 5_000),
        Event("trainload.step:7", 20_000, 10),
        Event("trainload.input:8", 21_000, 2_000),
        op("a", 30_000, 5_000),
        Event("trainload.step:8", 40_000, 10),
    ]
    threads = read_threads(Profile([Plane([Line(events)])]))
    window = label_profile(
        threads, lambda rows, name: {"layer": f"{name}{rows}", "phase": "update"}
    )
    found = [event["args"]["layer"] for event in window._events if event["name"] == "a"]
    assert found == ["a32", "a8"]


def test_a_profile_without_steps_gives_an_empty_window() -> None:
    window = label_profile(read_threads(Profile([Plane([Line([])])])), lambda _rows, _name: {})
    assert window._events == []
