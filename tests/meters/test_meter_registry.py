"""The room's door: names, opening all meters, describing them."""

import json
import os

import pytest

import trainload.meters as room
from trainload.errors import MeterError
from trainload.meters import (
    METERS,
    AbsentMeter,
    MeterContext,
    available_columns,
    describe_meters,
    open_meters,
)
from trainload.units import unit_of


def test_every_public_name_is_there():
    assert all(hasattr(room, name) for name in room.__all__)


def test_all_meters_of_this_machine_answer_what_they_state():
    meters = open_meters(MeterContext(target_pid=os.getpid(), cores=(0,)))
    assert [meter.name for meter in meters] == [name for name in METERS if name != "replay"]
    columns = [column for meter in meters for column in available_columns(meter)]
    assert len(columns) == len(set(columns))
    for t_s in (0.0, 1.0, 2.0):
        for meter in meters:
            assert len(meter.read(t_s)) == len(available_columns(meter))
    for meter in meters:
        meter.close()
        meter.close()


def test_every_quantity_has_its_unit_and_every_absence_its_reason(tmp_path):
    for context in (
        MeterContext(target_pid=os.getpid()),
        MeterContext(proc_root=tmp_path, sys_root=tmp_path, accelerator_uuids=()),
    ):
        meters = open_meters(context)
        for meter in meters:
            for quantity in meter.quantities:
                assert unit_of(quantity.column)
                assert quantity.source
                assert quantity.provenance != "unavailable" or quantity.reason
            if isinstance(meter, AbsentMeter):
                assert meter.reason
            meter.close()


def test_a_machine_without_any_source_has_only_absent_meters(tmp_path):
    context = MeterContext(proc_root=tmp_path, sys_root=tmp_path, accelerator_uuids=())
    names = [name for name in METERS if name != "tegrastats"]
    assert all(isinstance(meter, AbsentMeter) for meter in open_meters(context, names))


def test_describe_is_plain_json(tmp_path):
    meters = open_meters(MeterContext(accelerator_uuids=()), ["host_memory", "nvml"])
    memory, nvml = json.loads(json.dumps(describe_meters(meters)))
    assert memory["name"] == "host_memory"
    assert memory["reason"] is None
    assert memory["quantities"][0]["column"] == "host_ram_used_bytes"
    assert memory["quantities"][0]["unit"] == "bytes"
    assert nvml["reason"] == "no accelerator in this setting"
    for meter in meters:
        meter.close()


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(MeterError, match=r"wattmeter.*host_cpu.*rapl"):
        open_meters(MeterContext(), ["host_cpu", "wattmeter"])


def test_replay_is_opened_where_a_recording_is_named(tmp_path):
    path = tmp_path / "readings.jsonl"
    path.write_text('{"columns": ["a_w"]}\n[1]\n')
    assert "replay" not in [meter.name for meter in open_meters(MeterContext(), [])]
    (absent,) = open_meters(MeterContext(), ["replay"])
    assert isinstance(absent, AbsentMeter)
    (meter,) = open_meters(MeterContext(replay_path=path), ["replay"])
    assert meter.read(0.0) == [1]


def test_two_meters_with_one_column_are_refused(tmp_path):
    path = tmp_path / "readings.jsonl"
    path.write_text('{"columns": ["host_ram_used_bytes"]}\n[1]\n')
    with pytest.raises(MeterError, match="host_memory and replay both give"):
        open_meters(MeterContext(replay_path=path), ["host_memory", "replay"])
