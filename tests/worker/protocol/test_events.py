"""Every kind of line: written by the worker, parsed by the driver, damaged on the way."""

import json
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typed_values import JSON_VALUES, values_of

from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.checked import CheckError, to_json
from trainload_worker.protocol.events import (
    EVENTS,
    BrokenFile,
    DataReady,
    End,
    EpochDone,
    Event,
    Hello,
    MemoryUse,
    Obtained,
    ObtainedAccelerator,
    PhaseEdge,
    RankEnd,
    SettingTaken,
    StepsDone,
    event_fields,
    parse_event,
)
from trainload_worker.protocol.windows import WindowSaved

KINDS = sorted(EVENTS)


def line_of(event: Event) -> dict[str, Any]:
    return json.loads(json.dumps(to_json(event_fields(event)), allow_nan=False))


def needed_fields(kind: str) -> list[str]:
    return [
        spec.name
        for spec in fields(EVENTS[kind])
        if spec.default is MISSING and spec.default_factory is MISSING
    ]


def test_each_type_has_a_kind_of_its_own():
    assert len(EVENTS) == len(Event.__args__)
    assert all(kind == cls.KIND for kind, cls in EVENTS.items())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_line_brings_back_the_event(tmp_path_factory, kind, data):
    event = data.draw(values_of(EVENTS[kind]))
    path: Path = tmp_path_factory.mktemp("events") / "events.jsonl"
    writer = EventWriter(str(path))
    assert writer.write(event) and writer.lost_count == 0
    writer.close()
    (line,) = path.read_bytes().splitlines()
    assert line.startswith(b'{"kind":"%s"' % kind.encode()), "readers may look for this"
    found = parse_event(json.loads(line))
    assert found == event and type(found) is type(event)


@settings(max_examples=25, deadline=None)
@given(values_of(StepsDone), st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_a_loss_that_is_no_number_comes_back_as_missing(tmp_path_factory, event, loss):
    path: Path = tmp_path_factory.mktemp("events") / "events.jsonl"
    writer = EventWriter(str(path))
    assert writer.write(replace(event, loss=(*event.loss, loss)))
    writer.close()
    assert parse_event(json.loads(path.read_bytes())) == replace(event, loss=(*event.loss, None))


@pytest.mark.parametrize("value", [{"kind": "weather"}, {"kind": "", "t_s": 1.0}])
def test_a_kind_of_a_later_version_is_none(value):
    assert parse_event(value) is None


@pytest.mark.parametrize("value", [None, 7, "hello", [], {}, {"kind": 3}, {"kind": None}, [{}]])
def test_what_is_no_event_is_damaged(value):
    with pytest.raises(CheckError, match="an event is an object with a kind"):
        parse_event(value)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in needed_fields(kind)]
)
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_without_what_it_needs_a_line_is_damaged(kind, name, data):
    line = line_of(data.draw(values_of(EVENTS[kind])))
    del line[name]
    with pytest.raises(CheckError, match=f"'{name}' is missing"):
        parse_event(line)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ({"kind": "hello", "t_s": "now"}, "t_s: expected a number, got 'now'"),
        ({"kind": "hello", "t_s": True}, "t_s: expected a number, got True"),
        ({"kind": "phase", "name": "train", "edge": "middle", "t_s": 1.0}, "edge: 'middle' is not"),
        (
            {"kind": "steps", "epoch": -1, "first_step": 0, "start_s": 0.0, "end_s": [],
             "loss": []},
            "epoch: -1 must be at least 0",
        ),
        (
            {"kind": "steps", "epoch": 0, "first_step": 2**63, "start_s": 0.0, "end_s": [],
             "loss": []},
            "first_step: 9223372036854775808 must be at most",
        ),
        ({"kind": "end", "outcome": "timed_out"}, "outcome: 'timed_out' is not one of"),
        ({"kind": "checkpoint", "state": "lost"}, "state: 'lost' is not one of saved, failed"),
    ],
)  # fmt: skip
def test_a_wrong_value_that_cannot_be_missing_damages_the_line(line, words):
    with pytest.raises(CheckError, match=words):
        parse_event(line)


@pytest.mark.parametrize(
    ("line", "event"),
    [
        ({"kind": "hello", "t_s": 1, "pid": "x", "mood": "good"}, Hello(1.0)),
        ({"kind": "hello", "t_s": 1.0, "software": {"torch": "2", "cuda": 12}},
         Hello(1.0, software={"torch": "2"})),
        ({"kind": "setting", "obtained": []}, SettingTaken(Obtained())),
        ({"kind": "setting", "obtained": {"cores": "all", "threads": 2}},
         SettingTaken(Obtained(threads=2))),
        ({"kind": "setting", "obtained": {"accelerators": [{"name": "a"}, 3]}},
         SettingTaken(Obtained(accelerators=(ObtainedAccelerator("a"),)))),
        ({"kind": "data", "train_rows": 1.5, "validation_rows": 2, "cache": 7,
          "broken": [{"file": "a"}, {"reason": "b"}]},
         DataReady(validation_rows=2, broken=(BrokenFile("a"),))),
        ({"kind": "memory", "peak_rss_bytes": 10**30}, MemoryUse(peak_rss_bytes=10**30)),
        ({"kind": "steps", "epoch": 0, "first_step": 0, "start_s": 0, "end_s": [1], "loss": ["x"]},
         StepsDone(0, 0, 0.0, (1.0,), ())),
        ({"kind": "epoch", "epoch": 1, "start_s": 1.0, "end_s": 2.0, "validation": [],
          "train_loss": "low"}, EpochDone(1, 1.0, 2.0)),
        ({"kind": "window", "index": 0, "file": "w", "begin_s": 1.0, "end_s": 2.0, "cost_s": 0.1,
          "disturbed": [1, "2"]}, WindowSaved(0, "w", 1.0, 2.0, 0.1)),
        ({"kind": "phase", "name": "a", "edge": "begin", "t_s": 1}, PhaseEdge("a", "begin", 1.0)),
        ({"kind": "end", "outcome": "failed", "reason": 3}, End("failed")),
        ({"kind": "rank_end", "outcome": "completed"}, RankEnd("completed")),
    ],
)  # fmt: skip
def test_a_wrong_value_elsewhere_is_missing_and_the_rest_is_kept(line, event):
    found = parse_event(line)
    assert found == event and type(found) is type(event)


def test_the_end_of_a_process_is_not_that_of_the_run():
    assert parse_event({"kind": "rank_end", "outcome": "completed"}) != End("completed")


@given(st.sampled_from(KINDS), st.data())
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_a_mutated_line_is_an_event_or_damaged(kind, data):
    line = line_of(data.draw(values_of(EVENTS[kind])))
    line[data.draw(st.sampled_from(sorted(line)))] = data.draw(JSON_VALUES)
    try:
        found = parse_event(line)
    except CheckError:
        return
    assert found is None or parse_event(line_of(found)) == found
