"""Steps that a program tells: their end is when their loss is there, whatever they give."""

import json
import threading

from trainload_worker.process.events import EventWriter
from trainload_worker.training.told_steps import ToldSteps


class Later:
    """A loss that a device still works at."""

    def __init__(self, value):
        self.value, self.ready = value, threading.Event()

    def block_until_ready(self):
        assert self.ready.wait(10)

    def __float__(self):
        return self.value


class Broken:
    def numpy(self):
        raise RuntimeError("was given away")


def read_steps(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["kind"] == "steps" for line in lines), lines
    return lines


def test_a_step_ends_when_its_loss_is_there(tmp_path):
    path = tmp_path / "events.jsonl"
    told = ToldSteps(EventWriter(str(path)))
    told.begin()
    first, second = Later(3.0), Later(2.0)
    told.mark(first, 8)
    told.mark(second, 4)
    assert told.collect(drain=False).end_s == []
    first.ready.set()
    second.ready.set()
    for loss in (None, 0.5, Broken(), "text"):
        told.mark(loss)
    told.finish()
    (line,) = read_steps(path)
    assert line["loss"] == [3.0, 2.0, None, 0.5, None, None]
    assert line["examples"] == [8, 4, None, None, None, None]
    assert line["first_step"] == 0 and line["start_s"] < line["end_s"][0]


def test_a_program_that_tells_none_writes_none(tmp_path):
    path = tmp_path / "events.jsonl"
    told = ToldSteps(EventWriter(str(path)))
    told.begin()
    told.finish()
    assert read_steps(path) == []
