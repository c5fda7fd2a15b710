"""A machine's figures as a file: whole and back, refused where it is another's or wrong."""

import json
from dataclasses import replace

import pytest

from trainload.errors import HardwareFileError
from trainload.hardware import read_machine
from trainload.hardware.limits import (
    MachineLimits,
    find_limits,
    limits_path,
    load_limits,
    save_limits,
    to_document,
)
from trainload_worker.protocol.measure import Measured, MeasureLack, Reading

LIMITS = MachineLimits(
    taken_at="2026-01-01T00:00:00+00:00",
    quick=True,
    facts={"cpu": "A CPU", "cores": "2"},
    measured=(
        Measured("memory-latency", "s", (Reading({"bytes": "1024"}, (1e-9, 2e-9)),), "a chase"),
    ),
    lacks=(MeasureLack("device-bandwidth", "no GPU"),),
    software={"torch": "2.13"},
    notes=("others were busy",),
)


def test_it_comes_back_as_it_was_kept(tmp_path):
    path = tmp_path / "deep" / "limits.json"
    save_limits(LIMITS, path)
    assert load_limits(path) == LIMITS
    assert LIMITS.find("memory-latency").unit == "s"
    assert LIMITS.why_missing("device-bandwidth") == "no GPU"
    assert "not measured" in LIMITS.why_missing("tlb-reach")


def test_this_machine_has_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINLOAD_LIMITS", str(tmp_path))
    machine = read_machine()
    assert find_limits(machine) is None
    save_limits(LIMITS, limits_path(machine))
    assert limits_path(machine).parent == tmp_path and find_limits(machine) == LIMITS
    fewer = replace(machine, allowed_cores=(0, 1, 2, 3, 4, 5, 6))
    assert limits_path(fewer) != limits_path(machine)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"kind": "trainload calibration"}, "holds no figures"),
        ({"format": 9}, "has format 9"),
        ({"quick": "so"}, "quick"),
        ({"notes": ["\x1b[31m"]}, "printable"),
        ({"facts": {"cpu": "x" * 3000}}, "printable"),
    ],
)
def test_a_wrong_file_is_refused_in_a_line(tmp_path, changes, complaint):
    path = tmp_path / "limits.json"
    path.write_text(json.dumps({**to_document(LIMITS), **changes}))
    with pytest.raises(HardwareFileError, match=complaint) as error:
        load_limits(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"many"'])
def test_a_value_that_is_none_is_refused(tmp_path, value):
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(to_document(LIMITS)).replace("1e-09", value))
    with pytest.raises(HardwareFileError):
        load_limits(path)


def test_what_cannot_be_written_or_read_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HardwareFileError, match="cannot write"):
        save_limits(LIMITS, tmp_path / "file" / "limits.json")
    with pytest.raises(HardwareFileError, match="cannot read"):
        load_limits(tmp_path / "none.json")
