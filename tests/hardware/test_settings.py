"""Settings: what is written, what it means here, and what is impossible."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.errors import SettingError
from trainload.hardware import (
    Accelerator,
    parse_setting,
    read_accelerators,
    read_machine,
    render_ranges,
    resolve_setting,
    visible_accelerators,
)


def gpu(index):
    return Accelerator(
        index=index, nvml_index=index, uuid=f"GPU-{index}abc", name="Test GPU", memory_bytes=1,
        driver="1",
    )  # fmt: skip


@pytest.fixture
def machine():
    return replace(
        read_machine(), allowed_cores=(0, 1, 2, 3), accelerators=(gpu(0), gpu(1)),
        accelerator_note=None, cpu_quota_cores=None,
    )  # fmt: skip


def test_a_setting_names_cores_and_accelerators(machine):
    setting = resolve_setting("cpu0,2-3+gpu1", None, machine)
    assert setting.cores == (0, 2, 3) and setting.threads == 3
    assert [a.uuid for a in setting.accelerators] == ["GPU-1abc"]
    assert setting.text == "cpu0,2-3+gpu1"


def test_the_default_takes_all_cores_and_the_first_accelerator(machine):
    assert resolve_setting(None, None, machine).text == "cpu0-3+gpu0"
    assert resolve_setting(None, None, replace(machine, accelerators=())).text == "cpu0-3"


def test_a_cpu_quota_bounds_the_threads(machine):
    assert resolve_setting(None, None, replace(machine, cpu_quota_cores=1.5)).threads == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu0-9", "core 4 is not available; this process may use cpu0-3"),
        ("gpu0", "cannot be read; write it as cpu0-3"),
        ("cpu", "cannot be read"),
        ("cpu3-1", "range '3-1' is not possible"),
        ("cpu0,,1", "'' is no number"),
        ("cpu0+gpu7", "no gpu7 here; accelerators: gpu0, gpu1"),
    ],
)
def test_impossible_settings(machine, text, message):
    with pytest.raises(SettingError, match=message):
        resolve_setting(text, None, machine)


def test_no_accelerator_says_why(machine):
    bare = replace(machine, accelerators=(), accelerator_note="no NVIDIA GPU")
    with pytest.raises(SettingError, match="none \\(no NVIDIA GPU\\)"):
        resolve_setting("cpu0+gpu0", None, bare)
    with pytest.raises(SettingError, match="--threads 0"):
        resolve_setting("cpu0", 0, bare)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_ranges_round_trip(numbers):
    ordered = tuple(sorted(numbers))
    assert parse_setting("cpu" + render_ranges(ordered))[0] == ordered


@given(st.text(alphabet="cpugu0123456789,-+ ", max_size=20))
def test_any_text_gives_a_setting_or_a_typed_error(text):
    try:
        cores, _gpus = parse_setting(text)
    except SettingError:
        return
    assert cores


@pytest.mark.parametrize(
    ("mask", "uuids"),
    [
        (None, ["GPU-0abc", "GPU-1abc"]),
        ("", []),
        ("1", ["GPU-1abc"]),
        ("1,0", ["GPU-1abc", "GPU-0abc"]),
        ("GPU-1", ["GPU-1abc"]),
        ("0,9,1", ["GPU-0abc"]),
        ("-1", []),
    ],
)
def test_cuda_visible_devices(mask, uuids):
    visible = visible_accelerators((gpu(0), gpu(1)), mask)
    assert [a.uuid for a in visible] == uuids
    assert [a.index for a in visible] == list(range(len(uuids)))


class FakeNvml:
    """The few calls the inventory makes, for two GPUs of which one shares the host's memory."""

    class NVMLError(Exception):
        pass

    def __init__(self, fail_init=False):
        self.fail_init = fail_init

    def nvmlInit(self):
        if self.fail_init:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self):
        pass

    def nvmlSystemGetDriverVersion(self):
        return b"580.1"

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle):
        return b"H200"

    def nvmlDeviceGetMemoryInfo(self, handle):
        if handle == 1:
            raise self.NVMLError("Not Supported")
        return type("Memory", (), {"total": 2**30})


def test_inventory_of_accelerators():
    found = read_accelerators({}, FakeNvml())
    assert [a.memory_bytes for a in found.accelerators] == [2**30, None]
    assert found.accelerators[0].name == "H200" and found.accelerators[0].driver == "580.1"
    assert "hides every GPU" in (
        read_accelerators({"CUDA_VISIBLE_DEVICES": ""}, FakeNvml()).note or ""
    )
    assert "Driver Not Loaded" in (read_accelerators({}, FakeNvml(fail_init=True)).note or "")


def test_this_machine_has_cores_and_memory():
    machine = read_machine()
    assert machine.logical_cores >= len(machine.allowed_cores) >= 1
    assert machine.memory_total_bytes and machine.memory_total_bytes > 2**28
