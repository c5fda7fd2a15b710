"""The sweep's calls on a CPU are the operations they claim to be, and a sweep tells all it does."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from trainload_worker.errors import FrameworkError  # noqa: E402
from trainload_worker.frameworks.torch.sweep import devices, sweep  # noqa: E402
from trainload_worker.frameworks.torch.sweep.cases import FAMILIES, Case, list_cases  # noqa: E402
from trainload_worker.frameworks.torch.sweep.dispatch import measure_dispatch  # noqa: E402
from trainload_worker.frameworks.torch.sweep.kernels import build_calls  # noqa: E402
from trainload_worker.frameworks.torch.sweep.timers import CpuTimer, Timing  # noqa: E402
from trainload_worker.protocol import sweep as said  # noqa: E402
from trainload_worker.protocol.spec import SettingSpec, SweepSpec  # noqa: E402

pytestmark = pytest.mark.framework("torch")


@pytest.fixture(autouse=True)
def one_thread():
    """Small operations on several threads wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def smallest(family: str) -> Case:
    cases = [
        one
        for one in list_cases(["float32"])
        if one.family == family and not one.sizes.get("from_host")
    ]
    return min(cases, key=lambda one: one.flops + one.bytes)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_smallest_case_of_each_family_runs_as_often_as_it_is_called(family):
    case = smallest(family)
    for call in build_calls(case, "cpu", 2):
        first, second = call(), call()
        assert type(first) is type(second)


def test_shapes_and_gradients_are_those_of_the_operation():
    sizes = {"batch": 2, "in_channels": 4, "out_channels": 6, "height": 8, "width": 8,
             "kernel": 3, "stride": 2, "groups": 2}  # fmt: skip
    result, *_ = build_calls(Case("conv", "conv", "float32", sizes, 1, 1), "cpu", 1)
    assert tuple(result().shape) == (2, 6, 4, 4)
    (given,) = build_calls(Case("c", "conv_grad_input", "float32", sizes, 1, 1), "cpu", 1)
    x, w, b = given()
    assert tuple(x.shape) == (2, 4, 8, 8) and w is None and b is None
    (weights,) = build_calls(Case("c", "conv_grad_weight", "float32", sizes, 1, 1), "cpu", 1)
    x, w, b = weights()
    assert x is None and tuple(w.shape) == (6, 2, 3, 3)
    (last,) = build_calls(
        Case("last conv", "conv", "float32", {**sizes, "channels_last": 1}, 1, 1), "cpu", 1
    )
    assert last().is_contiguous(memory_format=torch.channels_last)
    assert not result().is_contiguous(memory_format=torch.channels_last)
    rows = {"rows": 5, "width": 3, "table": 11}
    (scatter,) = build_calls(Case("scatter", "scatter", "float32", rows, 1, 1), "cpu", 1)
    assert tuple(scatter().shape) == (11, 3)


def test_dispatch_has_every_kind_of_work():
    found = measure_dispatch("cpu", lambda: None, 0.2)
    assert {"operation", "module", "forward", "backward", "optimizer_fused"} <= set(found)
    assert all(0 < seconds < 1 for seconds in found.values())
    assert found["operation"] < found["optimizer"]


def test_number_types_follow_the_devices_capability():
    assert devices._cuda_types((5, 0)) == ("float32",)
    assert devices._cuda_types((7, 5)) == ("float32", "float16")
    assert devices._cuda_types((9, 0)) == ("float32", "tf32", "bfloat16", "float16")


class FakeDevice:
    """A device without kernels: every call takes no time and is said to take 60 µs."""

    name, kind, place, method = "A device", "cuda", "cpu", "made up"
    dtypes, shares = ("float32",), {}
    case_s, longest_s, cache_bytes, most_bytes, most_copies = 0.001, 0.1, 1e6, 1e9, 2
    first_sizes = (16384, 1 << 30)

    def __init__(self) -> None:
        self.timer = self
        self.recovered = 0

    def measure(self, calls, budget_s):
        calls[0]()
        return Timing(6e-5, 0.0)

    def hold(self, calls, seconds, hold_s):
        return CpuTimer().hold(calls, seconds, hold_s)

    def dispatch(self, limit_s):
        return {"operation": 1e-6}

    def recover(self) -> None:
        self.recovered += 1


class Heard:
    def __init__(self) -> None:
        self.events = []

    def write(self, event) -> bool:
        self.events.append(event)
        return True

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def run_sweep(build, limit_s=1.5, hold_s=0.02):
    spec = SweepSpec(
        events_path="", framework="torch", target="cpu", limit_s=limit_s,
        setting=SettingSpec(), hold_s=hold_s,
    )  # fmt: skip
    heard, device = Heard(), FakeDevice()
    made = sweep.Sweep(device, heard, lambda: None, spec, build)
    made.open()
    made.measure_points()
    made.hold_points()
    return heard, device


def test_a_sweep_tells_its_device_points_power_windows_and_gaps():
    def build(case, place, copies):
        def call() -> None:
            if case.operation == "gru":
                raise RuntimeError("not implemented\nfor this")
            if case.operation == "conv" and case.sizes["kernel"] == 1:
                raise RuntimeError("no engine")
            if case.operation == "linear" and case.sizes["m"] == 4096:
                raise torch.OutOfMemoryError("no memory left")

        return [call] * copies

    heard, device = run_sweep(build)
    assert heard.of(said.SweepBegun)[0].device == "A device"
    assert heard.of(said.SweepIdle)[0].end_s > heard.of(said.SweepIdle)[0].begin_s
    points = heard.of(said.SweepPoint)
    assert {"linear", "conv", "optimizer", "copy"} <= {point.operation for point in points}
    assert not [one for one in points if one.operation == "gru"]
    lacks = heard.of(said.SweepLack)
    assert {(one.what, one.reason) for one in lacks} == {
        ("gru in float32", "not implemented for this"),
        ("some sizes of conv in float32", "no engine"),
    }
    assert device.recovered >= 1
    held = heard.of(said.SweepHeld)
    assert held and all(0 <= one.point < len(points) and one.end_s > one.begin_s for one in held)


def test_without_a_meter_nothing_is_held():
    heard, _ = run_sweep(lambda case, place, copies: [lambda: None], 0.5, 0.0)
    assert heard.of(said.SweepPoint)
    assert not heard.of(said.SweepHeld) and not heard.of(said.SweepIdle)


class FakeTorchCuda:
    """As much of `torch.cuda` as a sweep's device uses; its clock is that of what it is told."""

    def __init__(self) -> None:
        self.cycles = 0
        self.said = []

    def is_available(self) -> bool:
        return True

    def get_device_properties(self, index):
        assert index == 0
        return SimpleNamespace(name="A GPU", major=8, minor=0, L2_cache_size=40 << 20)

    def mem_get_info(self):
        return 32 << 30, 40 << 30

    def Event(self, enable_timing):
        assert enable_timing
        return FakeCudaEvent(self)

    def _sleep(self, cycles) -> None:
        assert isinstance(cycles, int)
        self.cycles += cycles

    def synchronize(self) -> None:
        self.said.append("synchronize")

    def empty_cache(self) -> None:
        self.said.append("empty_cache")


class FakeCudaEvent:
    def __init__(self, cuda) -> None:
        self._cuda, self.at = cuda, 0

    def record(self) -> None:
        self.at = self._cuda.cycles

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other) -> float:
        return (other.at - self.at) / 1e9 * 1e3  # a clock of 1 GHz, in milliseconds


def test_a_gpu_is_asked_what_it_is_and_timed_by_its_events():
    cuda = FakeTorchCuda()
    device = devices.CudaDevice(cuda)
    assert device.name == "A GPU" and device.dtypes[1] == "tf32"
    assert device.most_bytes == 16 << 30 and device.cache_bytes == 80 << 20
    assert "twice the L2 cache (40 MB)" in device.method
    timing = device.timer.measure([lambda: cuda._sleep(50_000)] * 4, 0.01)
    assert timing.seconds == pytest.approx(50e-6)
    held = device.timer.hold([lambda: cuda._sleep(50_000)], 50e-6, 0.02)
    assert held.end_s - held.begin_s >= 0.02 and held.seconds > 0
    device.recover()
    assert cuda.said[-1] == "empty_cache"


def test_without_a_gpu_the_cpu_is_named():
    cuda = FakeTorchCuda()
    cuda.is_available = lambda: False
    with pytest.raises(FrameworkError, match="--device cpu"):
        devices.CudaDevice(cuda)
