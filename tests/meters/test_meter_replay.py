"""Recorded readings given back row by row."""

import pytest

from trainload.errors import MeterError
from trainload.meters.meter import AbsentMeter, MeterContext, available_columns
from trainload.meters.replay import open_replay_meter

RECORDING = '{"columns": ["host_cpu_load_fraction", "gpu0_power_w"]}\n[0.5, 100]\n[null, 120.5]\n'


def test_rows_then_missing(tmp_path):
    path = tmp_path / "readings.jsonl"
    path.write_text(RECORDING)
    meter = open_replay_meter(MeterContext(replay_path=path))
    assert available_columns(meter) == ["host_cpu_load_fraction", "gpu0_power_w"]
    assert [meter.read(t) for t in range(3)] == [[0.5, 100], [None, 120.5], [None, None]]
    meter.close()


def test_wrapping(tmp_path):
    path = tmp_path / "readings.jsonl"
    path.write_text(RECORDING)
    meter = open_replay_meter(MeterContext(replay_path=path), wrap=True)
    assert [meter.read(t)[0] for t in range(5)] == [0.5, None, 0.5, None, 0.5]


def test_absent(tmp_path):
    assert isinstance(open_replay_meter(MeterContext()), AbsentMeter)
    missing = MeterContext(replay_path=tmp_path / "none")
    assert isinstance(open_replay_meter(missing), AbsentMeter)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[1]\n", '{"columns": 3}', RECORDING + "[1]\n", RECORDING + '["a",1]']
)
def test_another_form_is_a_meter_error(tmp_path, text):
    path = tmp_path / "readings.jsonl"
    path.write_text(text)
    with pytest.raises(MeterError, match=r"readings\.jsonl"):
        open_replay_meter(MeterContext(replay_path=path))
