"""Calibrations: what is written reads back, what a stranger wrote gets one line."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainload.errors import HardwareFileError
from trainload.hardware.calibrations import (
    OPERATIONS,
    SIZES,
    Calibration,
    Point,
    find_calibration,
    load_calibration,
    load_calibrations,
    save_calibration,
)
from trainload.hardware.calibrations.form import from_document, to_document


def point(**changes: object) -> Point:
    values: dict[str, object] = {
        "operation": "linear",
        "dtype": "float32",
        "sizes": {"m": 64, "n": 128, "k": 256},
        "flops": 2 * 64 * 128 * 256,
        "bytes": 4 * (64 * 256 + 128 * 256 + 64 * 128),
        "seconds": 1.25e-5,
        "power_w": 300.0,
    }
    return Point(**{**values, **changes})  # type: ignore[arg-type]


def calibration(**changes: object) -> Calibration:
    values: dict[str, object] = {
        "device": "a-device",
        "points": (
            point(),
            point(sizes={"m": 1, "n": 3, "k": 5}, power_w=None),
            point(operation="copy", sizes={"elements": 12}, flops=0.0, power_w=None),
        ),
        "dispatch_s": {"operation": 4e-6},
        "idle_w": 70.0,
        "taken_at": "2026-11-15",
        "software": {"torch": "2.11.0"},
        "source": "measured by a test",
        "lacks": ("power",),
    }
    return Calibration(**{**values, **changes})  # type: ignore[arg-type]


def test_what_is_saved_reads_back(tmp_path: Path) -> None:
    path = save_calibration(calibration(), tmp_path / "new" / "c.json")
    assert load_calibration(path) == calibration()
    assert [entry.name for entry in path.parent.iterdir()] == ["c.json"]


def test_columns_hold_points_of_one_class_type_and_names_of_sizes(tmp_path: Path) -> None:
    path = save_calibration(calibration(), tmp_path / "c.json")
    columns = json.loads(path.read_text())["points"]
    assert [(one["operation"], len(one["seconds"])) for one in columns] == [
        ("linear", 2),
        ("copy", 1),
    ]
    assert columns[1]["power_w"] is None


def test_two_thousand_points_stay_under_200_kb(tmp_path: Path) -> None:
    names = ("batch", "in_channels", "out_channels", "height", "width", "kernel", "stride")
    many = tuple(
        point(operation="conv", sizes=dict.fromkeys(names, 17 + n), seconds=1e-6 * (n + 1) / 7)
        for n in range(2000)
    )
    path = save_calibration(calibration(points=many), tmp_path / "c.json")
    assert path.stat().st_size < 200_000


def test_the_users_latest_goes_before_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINLOAD_CALIBRATIONS", str(tmp_path))
    assert find_calibration("a-device") is None
    save_calibration(calibration(idle_w=1.0, taken_at="2026-02-01"), tmp_path / "a.json")
    save_calibration(calibration(idle_w=2.0, taken_at="2025-01-01"), tmp_path / "b.json")
    found = find_calibration("a-device")
    assert found is not None
    assert found.idle_w == 1.0
    assert "a-device" in load_calibrations()


def test_the_default_place_is_the_users_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINLOAD_CALIBRATIONS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = save_calibration(calibration())
    assert path == tmp_path / "trainload" / "calibrations" / "a-device.json"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "else"}, "is no calibration"),
        ({"format": 9}, "has format 9"),
        ({"device": "../../etc/passwd"}, "is no key of a device"),
        ({"taken_at": "yesterday"}, "is no ISO date"),
        ({"source": "a\x1b[31mb"}, "printable"),
        ({"idle_w": -3}, "idle_w: -3.0 must be at least 0"),
        ({"idle_w": "much"}, "idle_w: expected a number"),
        ({"unheard": 1}, "unknown name 'unheard'"),
        ({"dispatch_s": {"operation": 0}}, "must be above 0"),
        ({"points": 7}, "expected a list"),
    ],
)
def test_a_wrong_document_gets_one_line(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = save_calibration(calibration(), tmp_path / "c.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(HardwareFileError, match=said) as caught:
        load_calibration(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"operation": "magic"}, "is not one of"),
        ({"dtype": "int8"}, "is not one of"),
        ({"seconds": [1e-5]}, "columns of different lengths"),
        ({"sizes": {"m": [1, 2], "n": [1]}}, "columns of different lengths"),
        ({"seconds": [0, 1]}, "must be above 0"),
        ({"flops": [float("nan"), 1]}, "not a finite number"),
        ({"flops": [10**400, 1]}, "digits"),
    ],
)
def test_a_wrong_column_gets_one_line(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = save_calibration(calibration(), tmp_path / "c.json")
    document = json.loads(path.read_text())
    document["points"][0].update(change)
    path.write_text(json.dumps(document))
    with pytest.raises(HardwareFileError, match=said):
        load_calibration(path)


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path, said in (
        (tmp_path / "pipe.json", "no plain file"),
        (tmp_path, "Is a directory|no plain file"),
        (tmp_path / "absent.json", "No such file"),
    ):
        with pytest.raises(HardwareFileError, match=said):
            load_calibration(path)
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(HardwareFileError, match="no JSON"):
        load_calibration(deep)
    large = tmp_path / "large.json"
    large.write_bytes(b" " * ((4 << 20) + 1))
    with pytest.raises(HardwareFileError, match="more than"):
        load_calibration(large)


def test_nothing_is_written_that_could_not_be_read_again(tmp_path: Path) -> None:
    wrong = replace(calibration(), points=(point(seconds=0.0),))
    with pytest.raises(HardwareFileError, match="must be above 0"):
        save_calibration(wrong, tmp_path / "c.json")
    assert not (tmp_path / "c.json").exists()


def test_shipped_calibrations_are_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRAINLOAD_CALIBRATIONS", str(tmp_path))
    folder = Path(__file__).parents[2] / "src/trainload/hardware/calibrations/files"
    files = sorted(folder.glob("*.json"))
    assert set(load_calibrations()) == {path.stem for path in files}
    assert all(path.stat().st_size <= 400_000 for path in files)


def test_each_class_has_its_names_of_sizes() -> None:
    assert set(SIZES) == set(OPERATIONS)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_mutated_document_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    document = to_document(calibration())
    junk = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
        ),
        max_leaves=6,
    )
    where = document if data.draw(st.booleans()) else document["points"][0]
    where[data.draw(st.sampled_from([*where, "other"]))] = data.draw(junk)
    try:
        from_document(document, "there")
    except HardwareFileError as error:
        assert str(error).startswith("there") and "\n" not in str(error)
