"""NVIDIA GPUs through a fake NVML library, and through the real one where there is a GPU."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from trainload.meters.meter import AbsentMeter, Meter, MeterContext, available_columns
from trainload.meters.nvml import open_nvml_meter
from trainload.meters.nvml_activity import open_nvml_activity_meter
from trainload.meters.nvml_energy import open_nvml_energy_meter, period_for_cost_s
from trainload.meters.nvml_run import open_nvml_run_meter
from trainload.meters.nvml_state import open_nvml_state_meter

GIB = 1024**3


class FakeNvmlError(Exception):
    """Stands for pynvml.NVMLError."""


class FakeNvml:
    """Two GPUs; calls named in `unsupported` fail, as the driver's own do."""

    NVMLError = FakeNvmlError
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self, unsupported: set[str] | None = None, instant: bool = True) -> None:
        self.unsupported = unsupported or set()
        self.instant = instant
        self.sessions = 0
        self.processes: list[SimpleNamespace] = []

    def _check(self, call: str) -> None:
        if call in self.unsupported:
            raise FakeNvmlError("Not Supported")

    def nvmlInit(self):
        self._check("init")
        self.sessions += 1

    def nvmlShutdown(self):
        self.sessions -= 1

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return ["GPU-aaaa", b"GPU-bbbb"][handle]

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._check("utilisation")
        return SimpleNamespace(gpu=50 + handle, memory=25)

    def nvmlDeviceGetMemoryInfo(self, handle):
        self._check("memory")
        return SimpleNamespace(used=2 * GIB, total=8 * GIB, free=6 * GIB)

    def nvmlDeviceGetPowerUsage(self, handle):
        self._check("power")
        return 123_000

    def nvmlDeviceGetFieldValues(self, handle, fields):
        self._check("power")
        value = SimpleNamespace(uiVal=99_500)
        return [SimpleNamespace(nvmlReturn=0 if self.instant else 3, value=value)]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        self._check("power")
        return 300_000

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        self._check("energy")
        return 5_000 + 1_000 * handle

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return {1: 1980, 2: 2619}[kind]

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return {1: 2000, 2: 2700}[kind]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 41 + handle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 0x4

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return self.processes

    NVML_ERROR_NOT_FOUND = 6
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL, NVML_GPM_METRIC_SM_OCCUPANCY = 2, 3
    NVML_GPM_METRIC_ANY_TENSOR_UTIL, NVML_GPM_METRIC_DRAM_BW_UTIL = 5, 10
    shares: tuple[SimpleNamespace, ...] = ()

    def nvmlDeviceGetProcessUtilization(self, handle, since):
        found = [share for share in self.shares if share.timeStamp > since]
        if not found:
            error = FakeNvmlError("Not Found")
            error.value = self.NVML_ERROR_NOT_FOUND
            raise error
        return found

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=0 if "gpm" in self.unsupported else 1)

    def nvmlGpmSampleAlloc(self):
        return SimpleNamespace(number=None)

    def nvmlGpmSampleGet(self, handle, sample):
        self.taken = sample.number = getattr(self, "taken", 0) + 1

    def c_nvmlGpmMetricsGet_t(self):
        return SimpleNamespace(metrics=[SimpleNamespace(nvmlReturn=0, value=0.0) for _ in range(9)])

    def nvmlGpmMetricsGet(self, asked):
        assert asked.sample2.number == asked.sample1.number + 1
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = 10.0 * metric.metricId
        asked.metrics[2].nvmlReturn = 3


def read_columns(meter: Meter) -> dict[str, object]:
    return dict(zip(available_columns(meter), meter.read(0.0), strict=True))


def test_two_gpus():
    library = FakeNvml()
    meter = open_nvml_meter(MeterContext(), library)
    row = read_columns(meter)
    assert {key: value for key, value in row.items() if key.startswith("gpu0_")} == {
        "gpu0_load_fraction": 0.5,
        "gpu0_memory_busy_fraction": 0.25,
        "gpu0_memory_used_bytes": 2 * GIB,
        "gpu0_memory_used_fraction": 0.25,
        "gpu0_power_w": 99.5,
    }
    assert row["gpu1_load_fraction"] == 0.51
    quantities = {q.column: q for q in meter.quantities}
    assert quantities["gpu0_memory_used_bytes"].capacity == 8 * GIB
    assert quantities["gpu0_power_w"].capacity == 300.0
    assert "POWER_INSTANT" in quantities["gpu0_power_w"].source
    meter.close()
    meter.close()
    assert library.sessions == 0


def test_selection_by_uuid_alone_keeps_the_nvml_index():
    meter = open_nvml_meter(MeterContext(accelerator_uuids=("GPU-bbbb",)), FakeNvml())
    assert {column[:5] for column in available_columns(meter)} == {"gpu1_"}
    meter.close()


def test_power_usage_stands_in_for_the_instantaneous_power():
    meter = open_nvml_meter(MeterContext(), FakeNvml(instant=False))
    quantity = next(q for q in meter.quantities if q.column == "gpu0_power_w")
    assert quantity.source == "nvmlDeviceGetPowerUsage"
    assert "1 s" in (quantity.reason or "")
    assert read_columns(meter)["gpu0_power_w"] == 123.0
    meter.close()


def test_an_unsupported_quantity_is_unavailable_with_the_drivers_reason():
    meter = open_nvml_meter(MeterContext(), FakeNvml({"power", "memory"}))
    reasons = {q.column: q.reason for q in meter.quantities if q.provenance == "unavailable"}
    assert reasons["gpu0_power_w"] == reasons["gpu1_memory_used_bytes"] == "Not Supported"
    assert set(read_columns(meter)) == {
        f"gpu{i}_{name}_fraction" for i in (0, 1) for name in ("load", "memory_busy")
    }
    meter.close()


def test_a_passing_error_is_a_missing_value():
    library = FakeNvml()
    meter = open_nvml_meter(MeterContext(accelerator_uuids=("GPU-aaaa",)), library)
    library.unsupported = {"utilisation"}
    assert meter.read(0.0) == [None, None, 2 * GIB, 0.25, 99.5]
    meter.close()


OPENERS = [open_nvml_meter, open_nvml_energy_meter, open_nvml_state_meter]


@pytest.mark.parametrize(
    ("opener", "column", "value"),
    [
        (open_nvml_meter, "gpu0_load_fraction", 0.51),
        (open_nvml_energy_meter, "gpu0_energy_j", 6.0),
        (open_nvml_state_meter, "gpu0_temperature_celsius", 42),
    ],
)
def test_columns_are_numbered_as_settings_count(opener, column, value):
    context = MeterContext(accelerator_uuids=("GPU-bbbb",), accelerator_indices=(0,))
    meter = opener(context, FakeNvml())
    assert read_columns(meter)[column] == value
    assert {q.column[:5] for q in meter.quantities} == {"gpu0_"}
    meter.close()


def test_two_gpus_shown_in_the_opposite_order():
    context = MeterContext(accelerator_uuids=("GPU-bbbb", "GPU-aaaa"), accelerator_indices=(0, 1))
    meter = open_nvml_energy_meter(context, FakeNvml())
    assert available_columns(meter) == ["gpu0_energy_j", "gpu1_energy_j"]
    assert meter.read(0.0) == [6.0, 5.0]
    meter.close()


def test_an_index_is_that_of_its_uuid_where_nvml_lacks_another():
    context = MeterContext(accelerator_uuids=("GPU-zzzz", "GPU-aaaa"), accelerator_indices=(2, 5))
    meter = open_nvml_energy_meter(context, FakeNvml())
    assert read_columns(meter) == {"gpu5_energy_j": 5.0}
    meter.close()


def test_all_gpus_are_numbered_by_nvml_whatever_the_indices():
    meter = open_nvml_energy_meter(MeterContext(accelerator_indices=(7,)), FakeNvml())
    assert available_columns(meter) == ["gpu0_energy_j", "gpu1_energy_j"]
    meter.close()


def test_indices_without_their_uuids_are_a_bug():
    with pytest.raises(AssertionError):
        MeterContext(accelerator_uuids=("GPU-aaaa",), accelerator_indices=(0, 1))


def test_energy():
    meter = open_nvml_energy_meter(MeterContext(), FakeNvml())
    assert read_columns(meter) == {"gpu0_energy_j": 5.0, "gpu1_energy_j": 6.0}
    assert all(q.cumulative for q in meter.quantities)
    meter.close()
    meter = open_nvml_energy_meter(MeterContext(), FakeNvml({"energy"}))
    assert {q.reason for q in meter.quantities} == {"Not Supported"}
    assert meter.read(0.0) == []
    meter.close()


def test_a_dear_counter_is_read_seldom():
    assert period_for_cost_s(cost_s=1e-6, interval_s=0.1) == 0.1
    assert period_for_cost_s(cost_s=0.004, interval_s=0.1) == pytest.approx(2.0)
    assert period_for_cost_s(cost_s=1.0, interval_s=0.1) == 5.0
    assert period_for_cost_s(cost_s=1.0, interval_s=10.0) == 10.0


@pytest.mark.parametrize("opener", OPENERS)
def test_absences(opener):
    for context, library, word in (
        (MeterContext(accelerator_uuids=()), FakeNvml(), "no accelerator in this setting"),
        (MeterContext(accelerator_uuids=("GPU-zzzz",)), FakeNvml(), "GPU-zzzz"),
        (MeterContext(), FakeNvml({"init"}), "Not Supported"),
    ):
        meter = opener(context, library)
        assert isinstance(meter, AbsentMeter)
        assert word in meter.reason
        assert library.sessions == 0


def test_state():
    meter = open_nvml_state_meter(MeterContext(accelerator_uuids=("GPU-aaaa",)), FakeNvml())
    assert meter.period_s == 1.0
    assert read_columns(meter) == {
        "gpu0_sm_clock_hz": 1_980_000_000,
        "gpu0_memory_clock_hz": 2_619_000_000,
        "gpu0_temperature_celsius": 41,
        "gpu0_throttle_bits": 4,
    }
    assert meter.quantities[0].capacity == 2e9
    assert meter.quantities[-1].reason == "no run to watch"
    meter.close()


def write_process(root: Path, pid: int, parent: int) -> None:
    (root / str(pid)).mkdir()
    fields = " ".join(["S", str(parent), *["0"] * 22])
    (root / str(pid) / "stat").write_text(f"{pid} (python) {fields}\n")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([(10, GIB), (11, 2 * GIB), (20, 7 * GIB)], 3 * GIB),
        ([(20, 7 * GIB)], 0),  # seen, and none of it is the run's
        ([(20, 7 * GIB), (4711, GIB)], None),  # an id from outside this container
        ([(10, None)], None),
        ([], None),
    ],
)
def test_run_memory_counts_the_runs_own_processes(tmp_path, listed, expected):
    for pid, parent in ((1, 0), (10, 1), (11, 10), (20, 1)):
        write_process(tmp_path, pid, parent)
    library = FakeNvml()
    library.processes = [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in listed]
    context = MeterContext(proc_root=tmp_path, target_pid=10, accelerator_uuids=("GPU-aaaa",))
    meter = open_nvml_state_meter(context, library)
    assert read_columns(meter)["gpu0_run_memory_bytes"] == expected
    meter.close()


@pytest.mark.gpu
def test_this_machines_gpus():
    meter = open_nvml_meter(MeterContext())
    if isinstance(meter, AbsentMeter):
        pytest.skip(f"no NVIDIA GPU here: {meter.reason}")
    assert read_columns(meter)["gpu0_memory_used_bytes"] > 0
    meter.close()
    energy = open_nvml_energy_meter(MeterContext())
    first, second = energy.read(0.0), energy.read(0.1)
    assert all(b >= a for a, b in zip(first, second, strict=True))
    energy.close()
    state = open_nvml_state_meter(MeterContext())
    assert read_columns(state)["gpu0_sm_clock_hz"] > 0
    state.close()


def test_multiprocessors_activity_is_between_two_readings():
    library = FakeNvml()
    meter = open_nvml_activity_meter(MeterContext(accelerator_uuids=("GPU-aaaa",)), library)
    first, second = read_columns(meter), read_columns(meter)
    expected = {
        "gpu0_sm_active_fraction": 0.2,
        "gpu0_sm_occupancy_fraction": 0.3,
        "gpu0_tensor_active_fraction": None,
        "gpu0_memory_bandwidth_fraction": 1.0,
    }
    assert first == second == expected
    meter.close()
    assert library.sessions == 0


def test_a_gpu_that_does_not_count_its_multiprocessors_says_so():
    meter = open_nvml_activity_meter(MeterContext(), FakeNvml({"gpm"}))
    assert available_columns(meter) == []
    assert all("Hopper" in (quantity.reason or "") for quantity in meter.quantities)
    meter.close()


def make_process(proc: Path, pid: int, parent: int) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} (python) S {parent} " + "0 " * 48)


def test_the_runs_own_share_of_a_gpu_is_told_from_others(tmp_path):
    for pid, parent in ((10, 1), (11, 10), (99, 1)):
        make_process(tmp_path, pid, parent)
    library = FakeNvml()
    context = MeterContext(accelerator_uuids=("GPU-aaaa",), proc_root=tmp_path, target_pid=10)
    meter = open_nvml_run_meter(context, library)
    assert read_columns(meter) == {"gpu0_run_load_fraction": None, "gpu0_other_processes_count": 0}
    library.shares = tuple(
        SimpleNamespace(pid=pid, smUtil=load, timeStamp=at)
        for pid, load, at in ((11, 40, 5), (11, 60, 6), (99, 30, 6))
    )
    library.processes = [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in (11, 99)]
    assert read_columns(meter) == {"gpu0_run_load_fraction": 0.5, "gpu0_other_processes_count": 1}
    assert read_columns(meter)["gpu0_run_load_fraction"] is None  # nothing new since
    library.processes = [SimpleNamespace(pid=4711, usedGpuMemory=GIB)]
    assert read_columns(meter)["gpu0_other_processes_count"] is None
    meter.close()
