"""A device chosen, found quiet or not, and its calibration put together from words and readings."""

import os
from dataclasses import replace

import pytest

from trainload.errors import SettingError, UsageError
from trainload.hardware import Accelerator, Machine
from trainload.hardware.calibrations.form import from_document, to_document
from trainload.hardware.naming import device_key
from trainload.meters import Quantity
from trainload.run.calibration.power import PowerLog
from trainload.run.calibration.quiet import (
    OthersLoad,
    find_disturbance,
    refuse_disturbed,
    watch_others,
)
from trainload.run.calibration.sweeping import (
    CalibrationRequest,
    Heard,
    assemble,
    render_progress,
)
from trainload.run.calibration.target import choose_target
from trainload_worker.protocol.events import End, Hello
from trainload_worker.protocol.sweep import (
    SweepBegun,
    SweepDispatch,
    SweepHeld,
    SweepIdle,
    SweepLack,
    SweepPoint,
)

GPU = Accelerator(
    index=0, nvml_index=0, uuid="GPU-1", name="NVIDIA H200", memory_bytes=2**37, driver="580.1"
)
MACHINE = Machine(
    cpu_model="Made Up(R) CPU 9000 @ 2.20GHz",
    architecture="x86_64",
    logical_cores=4,
    physical_cores=2,
    allowed_cores=(0, 1),
    cpu_quota_cores=None,
    memory_total_bytes=2**33,
    memory_limit_bytes=None,
    swap_total_bytes=0,
    operating_system="Linux",
    kernel="6",
    accelerators=(GPU,),
    accelerator_note=None,
)


class FakeMeter:
    """Answers a row of values at each reading, the last one for ever."""

    name, period_s = "fake", 0.0

    def __init__(self, columns: dict[str, str], rows: list[list[float | None]]) -> None:
        self.quantities = tuple(
            Quantity(column=column, provenance="measured", source=source)
            for column, source in columns.items()
        )
        self._rows, self.closed = rows, False

    def read(self, t_s: float) -> list[float | None]:
        return self._rows.pop(0) if len(self._rows) > 1 else self._rows[0]

    def close(self) -> None:
        self.closed = True


def log_of(columns, rows, step_s=0.1):
    now = {"s": 0.0}

    def clock() -> float:
        now["s"] += step_s
        return now["s"]

    return PowerLog([FakeMeter(columns, rows)], clock)


@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        (None, "cuda", "h200"),
        ("cuda", "cuda", "h200"),
        ("cuda:0", "cuda", "h200"),
        ("gpu0", "cuda", "h200"),
        ("cpu", "cpu", "made-up-9000-2.20ghz"),
    ],
)
def test_words_for_a_device(text, kind, key):
    target = choose_target(text, MACHINE)
    assert (target.kind, target.key) == (kind, key)
    assert target.setting.threads == 2
    assert (target.accelerator is None) == (kind == "cpu")


def test_without_a_gpu_it_is_the_cpu():
    bare = replace(MACHINE, accelerators=(), accelerator_note="no NVIDIA driver")
    assert choose_target(None, bare).kind == "cpu"
    with pytest.raises(SettingError, match="no gpu7 here"):
        choose_target("cuda:7", MACHINE)


def test_a_gpu_that_nvml_does_not_list_is_what_torch_says_it_is(monkeypatch):
    bare = replace(MACHINE, accelerators=(), accelerator_note="nvidia-ml-py is not installed")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    target = choose_target("cuda:1", bare)
    assert (target.kind, target.visible, target.accelerator) == ("cuda", "1", None)
    assert find_disturbance(target, log_of({"x_bytes": "x"}, [[1.0]]), lambda _s: 0.1) == ()
    made = assemble(target, heard_words(), log_of({"x_bytes": "x"}, [[1.0]]))
    assert made.device == "h200" and "on NVIDIA H200" in made.source
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5")
    assert choose_target("cuda:1", bare).visible == "GPU-5"
    with pytest.raises(SettingError, match="hides it"):
        choose_target("cuda:2", bare)


@pytest.mark.parametrize("text", ["tpu", "cuda:x", "", "h200", "cuda:99999"])
def test_what_is_no_device_gets_one_line(text):
    with pytest.raises(UsageError, match="write cpu, or cuda:0"):
        choose_target(text, MACHINE)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla T4", "t4"),
        ("AMD EPYC 7763 64-Core Processor", "epyc-7763"),
        ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", "xeon-e5-2690-v4"),
        ("13th Gen Intel(R) Core(TM) i9-13900K", "core-i9-13900k"),
        ("AMD EPYC 7B13 64-Core Processor", "amd-epyc-7b13-64-core"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-xeon-2.20ghz"),
        ("../../etc/passwd", "etc-passwd"),
        ("/dev/null.json", "dev-null.json"),
        ("", "unnamed-device"),
    ],
)
def test_keys_from_names(name, key):
    assert device_key(name) == key


def test_power_is_the_mean_of_a_window_whose_beginning_is_left_out():
    rows = [[float(watts)] for watts in (50, 50, 100, 200, 300, 300, 300, 60)]
    log = log_of({"gpu0_power_w": "nvmlDeviceGetFieldValues(NVML_FI_DEV_POWER_INSTANT)"}, rows)
    for _ in range(8):
        log.read()
    assert log.mean_w(0.25, 0.75) == 300
    assert log.mean_w(0.25, 0.45) is None  # too few readings
    assert 0 < log.hold_s < 1
    averaged = log_of({"gpu0_power_w": "nvmlDeviceGetPowerUsage"}, [[1.0]])
    assert averaged.hold_s > 2
    assert log_of({"gpu0_load_fraction": "x"}, [[0.5]]).hold_s == 0


def test_packages_of_a_cpu_are_added_and_their_parts_are_not():
    columns = {f"rapl_{name}_power_w": "x" for name in ("package_0", "package_1", "package_0_core")}
    log = log_of(columns, [[None, None, None], [10.0, 20.0, 5.0]])
    for _ in range(5):
        log.read()
    assert log.mean_w(0, 0.55) == 30


def test_throttling_by_heat_is_told_and_the_power_cap_is_not():
    log = log_of({"gpu0_throttle_bits": "x"}, [[0x04], [0x40], [0x0], [0x44]])
    log.read()
    assert log.throttling() is None
    for _ in range(3):
        log.read()
    assert log.throttling() == "throttled in 50.0 % of readings: hardware thermal slowdown"


def test_a_busy_device_is_refused_with_what_makes_it_so():
    target = choose_target("cuda:0", MACHINE)
    columns = {
        "gpu0_load_fraction": "x",
        "gpu0_memory_used_bytes": "x",
        "gpu0_memory_used_fraction": "x",
    }
    busy = find_disturbance(target, log_of(columns, [[0.97, 9e9, 0.3]]), lambda _s: 0.8)
    assert len(busy) == 3
    with pytest.raises(SettingError, match=r"97.0 % load.*--anyway"):
        refuse_disturbed(target, busy)
    free = find_disturbance(target, log_of(columns, [[0.0, 6e8, 0.004]]), lambda _s: None)
    assert free == ()
    refuse_disturbed(target, free)


def test_others_share_of_the_cores_is_what_the_worker_did_not_take(monkeypatch):
    now = iter([0.0, 10.0])
    monkeypatch.setattr("trainload.run.calibration.quiet.time.monotonic", lambda: next(now))
    answers = iter([(100.0, 0.0), (115.0, 5.0), None])
    others = OthersLoad(1, lambda _pid: next(answers))
    others.look()
    others.look()  # it has ended: nothing changes
    assert others.fraction(4) == pytest.approx(10 / 40)
    heard = heard_words()
    heard.others_fraction = 0.25
    made = assemble(choose_target("cpu", MACHINE), heard, log_of({"x_bytes": "x"}, [[1.0]]))
    assert "others took 25.0 % of the host's cores meanwhile" in made.notes


def test_this_process_is_seen_among_others():
    others = watch_others(os.getpid())
    sum(range(10**6))
    others.look()
    assert 0 <= (others.fraction(os.cpu_count() or 1) or 0.0) <= 1
    assert watch_others(2**22 + 1).fraction(1) is None


def heard_words() -> Heard:
    heard = Heard()
    words = (
        Hello(t_s=0, python="3.12.1", framework="torch", framework_version="2.11.0",
              software={"cuda": "12.8", "cudnn": None}),
        SweepBegun("NVIDIA H200", ("float32", "bfloat16"), 9, "by a test"),
        SweepIdle(0.0, 1.0),
        SweepDispatch({"operation": 4e-6}),
        SweepPoint("linear", "float32", {"m": 1, "n": 2, "k": 3}, 12.0, 44.0, 2e-6, 0.3),
        SweepPoint("copy", "float32", {"elements": 4, "from_host": 0, "pinned": 0}, 0, 32, 1e-6),
        SweepLack("linear in bfloat16", "cannot"),
        SweepHeld(0, 2.0, 3.0, 2.5e-6),
        End("completed"),
    )  # fmt: skip
    for word in words:
        heard.add(word, 0.0)
    return heard


def test_words_and_readings_make_a_calibration_that_reads_back():
    log = log_of({"gpu0_power_w": "x"}, [[80.0]] * 15 + [[700.0]])
    for _ in range(30):
        log.read()
    made = assemble(choose_target(None, MACHINE), heard_words(), log, ("it was busy",))
    assert (made.device, made.idle_w) == ("h200", 80.0)
    assert made.points[0].power_w == 700 and made.points[0].sustained_s == 2.5e-6
    assert made.points[1].power_w is None and made.points[1].sustained_s is None
    assert made.software["torch"] == "2.11.0" and made.software["driver"] == "580.1"
    assert "cudnn" not in made.software
    assert {"tf32", "float16", "conv", "linear in bfloat16"} <= set(made.lacks)
    assert "power" not in made.lacks
    assert made.notes[0] == "calibrated although it was busy"
    assert any("spread by 30%" in note for note in made.notes)
    assert from_document(to_document(made), "here") == made


def test_without_readings_power_is_lacking():
    made = assemble(choose_target("cpu", MACHINE), heard_words(), log_of({"x_bytes": "x"}, [[1.0]]))
    assert made.idle_w is None and "power" in made.lacks
    assert all(point.power_w is None for point in made.points)


def test_progress_is_a_line_with_a_bar():
    target = choose_target(None, MACHINE)
    assert "starting torch" in render_progress(Heard(), target, 10.0, 0.0)
    line = render_progress(heard_words(), target, 10.0, 5.0)
    assert "5 of 10 s, 2 points, power of 1" in line and line.count("█") == 12


@pytest.mark.parametrize("seconds", [0, -1, 1e9, float("nan"), float("inf")])
def test_times_that_cannot_be_meant(seconds):
    with pytest.raises(UsageError, match="--seconds"):
        CalibrationRequest(python="python", seconds=seconds)
