"""The sampler by itself: its grid, its pauses, and meters that misbehave."""

import json
import os
import threading
import time

import pytest

from trainload.meters import Quantity
from trainload.record import LineReader
from trainload.record.append import LineAppender
from trainload.run.sampling.config import SamplerConfig
from trainload.run.sampling.sampler import Control, Sampler
from trainload.run.workers.processes import SamplerProcess

pytestmark = pytest.mark.alone


class ScriptedMeter:
    """Answers from a list; an exception in it is raised."""

    name = "scripted"
    period_s = 0.0
    quantities = (Quantity(column="x_count", provenance="measured", source="the test"),)

    def __init__(self, *answers):
        self.answers = list(answers)

    def read(self, t_s):
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        return [answer]

    def close(self):
        pass


@pytest.fixture
def sample(tmp_path):
    def run(meter, seconds, rate_hz=50, words=()):
        reading, writing = os.pipe()
        path = tmp_path / "samples.jsonl"
        sampler = Sampler([meter], LineAppender(path), rate_hz, Control(reading))
        thread = threading.Thread(target=sampler.run)
        thread.start()
        for delay_s, word in words:
            time.sleep(delay_s)
            os.write(writing, word.encode() + b"\n")
        time.sleep(seconds)
        os.close(writing)  # as when the driver dies
        thread.join(5)
        assert not thread.is_alive()
        os.close(reading)
        values = LineReader(path=path).read_rest()
        return sampler.stats, [v for v in values if isinstance(v, list)]

    return run


def test_the_grid_does_not_drift(sample):
    stats, rows = sample(ScriptedMeter(), 1.0)
    start_s = rows[0][1] - rows[0][0] * 0.02
    assert all(abs(row[1] - start_s - row[0] * 0.02) < 0.02 for row in rows[:-1])
    assert 40 <= stats.samples <= 53 and stats.samples == len(rows)


def test_a_meter_that_fails_gives_nulls_and_is_counted(sample):
    meter = ScriptedMeter(1, RuntimeError("odd"), float("nan"), float("inf"), 5)
    stats, rows = sample(meter, 0.3)
    assert [row[4] for row in rows[:5]] == [1, None, None, None, 5]
    assert stats.meter_errors == {"scripted": 1}


def test_a_meter_that_never_answers_is_left_alone(sample):
    stats, rows = sample(ScriptedMeter(*[OSError("gone")] * 200), 1.0, rate_hz=100)
    assert 50 <= stats.meter_errors["scripted"] <= 52  # given up, but for the last reading
    assert all(row[4] is None for row in rows)


def test_pauses_leave_gaps_that_are_not_missed(sample):
    stats, rows = sample(ScriptedMeter(), 0.3, words=[(0.3, "pause"), (0.4, "resume")])
    assert stats.missed == 0 and len(stats.pauses) == 1
    start_s, end_s = stats.pauses[0]
    assert 0.3 < end_s - start_s < 0.6
    assert not [row for row in rows if start_s < row[1] < end_s]


def test_the_process_replays_a_recording_and_says_what_it_did(tmp_path):
    recording = tmp_path / "recording.jsonl"
    lines = [{"columns": ["replayed_load_fraction"]}, *([i / 100] for i in range(1000))]
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = SamplerConfig(
        samples_path=str(tmp_path / "samples.jsonl"),
        rate_hz=100.0,
        meter_names=("replay",),
        replay_path=str(recording),
    )
    sampler = SamplerProcess(config, tmp_path / "sampler.log")
    assert sampler.wait_ready()["columns"][-1] == "replayed_load_fraction"
    time.sleep(0.5)
    stats = sampler.stop()
    assert stats is not None and sampler.ended == 0
    values = LineReader(path=tmp_path / "samples.jsonl").read_rest()
    rows = [v for v in values if isinstance(v, list)]
    assert stats["samples"] == len(rows) > 20
    assert [row[4] for row in rows[:3]] == [0.0, 0.01, 0.02]
    assert stats["meter_cpu_s"].keys() == {"replay"}
