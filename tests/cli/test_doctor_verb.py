"""`trainload doctor`: what is there, what is missing, the command that mends it."""

import json
from pathlib import Path

from trainload.api.doctoring import examine
from trainload.cli.app import run_app

STATES = {"good", "missing", "not here", "broken"}


def by_name(findings):
    return {(one["topic"], one["name"]): one for one in findings}


def test_doctor_tells_everything_as_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINLOAD_CONFIG", "")
    monkeypatch.setenv("TRAINLOAD_ENVS", str(tmp_path / "envs"))
    assert run_app(["doctor", "--json"]) == 0
    found = by_name(json.loads(capsys.readouterr().out)["findings"])
    assert found["program", "your defaults"]["words"] == "switched off"
    assert found["library", "polars"]["state"] == "good"
    assert found["framework", "mxnet"]["mend"] == "trainload env create mxnet"
    assert found["meter", "host_cpu"]["state"] == "good"
    assert found["meter", "process_tree"]["state"] == "good"
    assert found["disk", "runs"]["state"] == "good"
    assert {topic for topic, _ in found} == {
        "program", "library", "framework", "machine", "meter", "disk",
    }  # fmt: skip
    for one in found.values():
        assert one["state"] in STATES and one["words"]
        assert one["mend"] is not None if one["state"] == "missing" else True


def test_doctor_prints_states_and_mends(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRAINLOAD_ENVS", str(tmp_path / "envs"))
    assert run_app(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "the command that mends it" in text and "trainload env create mxnet" in text
    assert "trainload detect lists" in text
    assert run_app(["--plain", "doctor"]) == 0
    assert "trainload: state ok, what trainload 0." in capsys.readouterr().out


def test_a_broken_file_of_defaults_is_a_finding(tmp_path, monkeypatch, capsys):
    file = tmp_path / "own.toml"
    file.write_text("outy = 1\n")
    monkeypatch.setenv("TRAINLOAD_CONFIG", str(file))
    assert run_app(["doctor", "--json"]) == 1
    found = by_name(json.loads(capsys.readouterr().out)["findings"])["program", "your defaults"]
    assert found["state"] == "broken" and "line 1: outy" in found["words"]
    assert str(file) in found["mend"]


def test_energy_that_may_not_be_read_names_its_command(tmp_path):
    zone = tmp_path / "class" / "powercap" / "intel-rapl:0"
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "energy_uj").mkdir()  # cannot be read, whoever asks
    (rapl,) = [one for one in examine(sys_root=tmp_path) if one.name == "rapl"]
    assert rapl.state in ("missing", "not here") and "energy_uj" in rapl.words


def test_a_missing_permission_is_split_into_reason_and_command():
    from trainload.api.doctoring import _split_mend
    from trainload.meters.rapl import reason_unreadable

    reason = reason_unreadable(PermissionError(13, "denied"), Path("/sys/energy_uj"))
    words, mend = _split_mend(reason)
    assert words == "/sys/energy_uj: permission denied" and mend.startswith("sudo chmod")
    assert _split_mend("nvidia-ml-py is not installed; pip install 'trainload[nvidia]'") == (
        "nvidia-ml-py is not installed", "pip install 'trainload[nvidia]'",
    )  # fmt: skip


def test_a_folder_that_cannot_be_written_is_broken(tmp_path):
    (tmp_path / "file").write_text("")
    (runs,) = [one for one in examine(tmp_path / "file" / "runs") if one.name == "runs"]
    assert runs.state == "broken" and runs.mend is not None
