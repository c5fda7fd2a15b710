"""What a sweep times and how it shares its time; no framework is needed."""

import pytest

from trainload.hardware.calibrations import OPERATIONS, SIZES
from trainload_worker.frameworks.torch.sweep.cases import FAMILIES, Case, list_cases
from trainload_worker.frameworks.torch.sweep.counting import count, output_length
from trainload_worker.frameworks.torch.sweep.lanes import (
    Lane,
    Pace,
    make_lanes,
    next_case,
    spread_evenly,
)
from trainload_worker.frameworks.torch.sweep.timers import CpuTimer, CudaTimer

ALL = ("float32", "tf32", "bfloat16", "float16")


def case(flops: float, family: str = "linear") -> Case:
    return Case(family, family, "float32", {"m": 1}, flops, 1.0)


def test_every_class_is_timed_with_the_names_of_sizes_that_readers_know():
    cases = list_cases(ALL)
    assert {one.operation for one in cases} == set(OPERATIONS)
    assert all(tuple(one.sizes) in SIZES[one.operation] for one in cases)
    assert all(one.bytes > 0 and one.flops >= 0 for one in cases)


def test_tf32_is_for_products_and_the_optimizer_is_float32():
    of = {dtype: {c.operation for c in list_cases(ALL) if c.dtype == dtype} for dtype in ALL}
    assert "conv_grad_weight" in of["tf32"] and "lstm_backward" in of["tf32"]
    assert not of["tf32"] & {"norm", "elementwise", "optimizer", "attention", "softmax"}
    assert "optimizer" not in of["bfloat16"] and "copy" not in of["float16"]


def test_sizes_reach_from_launches_to_large_ones_and_off_the_tiles():
    linear = [one for one in list_cases(["float32"]) if one.family == "linear"]
    flops = [one.flops for one in linear]
    assert min(flops) < 1e4 and max(flops) > 1e11
    assert any(one.sizes["m"] % 8 and one.sizes["n"] % 8 and one.sizes["k"] % 8 for one in linear)
    groups = {one.sizes["groups"] for one in list_cases(["float32"]) if "groups" in one.sizes}
    assert {1, 2, 32, 144} <= groups


@pytest.mark.parametrize(
    ("operation", "sizes", "dtype", "flops", "moved"),
    [
        ("linear", {"m": 2, "n": 3, "k": 5}, "float32", 60, 4 * (10 + 15 + 6)),
        ("bmm", {"batch": 7, "m": 2, "n": 3, "k": 5}, "bfloat16", 420, 7 * 2 * 31),
        (
            "conv",
            {"batch": 2, "in_channels": 4, "out_channels": 8, "height": 6, "width": 6,
             "kernel": 3, "stride": 2, "groups": 2},
            "float32",
            # 3 × 3 places, 8 channels, each of 2 × 9 products
            2 * 2 * 9 * 8 * 18,
            4 * (2 * 4 * 36 + 8 * 2 * 9 + 2 * 8 * 9),
        ),
        (
            "attention",
            {"batch": 1, "heads": 2, "queries": 3, "keys": 5, "head_size": 7, "causal": 0},
            "float16",
            4 * 2 * 3 * 5 * 7,
            2 * 2 * 14 * 8,
        ),
        ("reduction", {"rows": 3, "width": 5}, "float32", 15, 4 * 18),
        ("elementwise", {"elements": 10, "operands": 3}, "float32", 20, 120),
        ("gather", {"rows": 3, "width": 5, "table": 9}, "float32", 0, 2 * 4 * 15 + 24),
        ("scatter", {"rows": 3, "width": 5, "table": 9}, "float32", 15, 4 * (15 + 45) + 24),
        (
            "lstm",
            {"batch": 2, "steps": 3, "input": 5, "hidden": 7, "layers": 1},
            "float32",
            2 * 2 * 3 * 4 * 7 * 12,
            4 * (4 * 7 * 12 + 2 * 3 * 12),
        ),
        (
            "optimizer",
            {"elements": 10, "tensors": 2, "moments": 2, "fused": 0},
            "float32",
            120,
            4 * 10 * 7,
        ),
        ("copy", {"elements": 10, "from_host": 1, "pinned": 1}, "float32", 0, 40),
    ],
)  # fmt: skip
def test_counts_by_hand(operation, sizes, dtype, flops, moved):
    assert count(operation, sizes, dtype) == (flops, moved)


def test_padding_keeps_the_size_of_odd_kernels_and_patches_come_out_even():
    assert output_length(56, 3, 1) == 56
    assert output_length(224, 7, 2) == 112
    assert output_length(224, 16, 16) == 14


def test_wherever_the_time_ends_the_sizes_measured_lie_evenly():
    ordered = [case(n) for n in range(100)]
    spread = [one.flops for one in spread_evenly(ordered)]
    assert sorted(spread) == list(range(100))
    assert spread[:3] == [50, 0, 99]
    gaps = [b - a for a, b in zip(sorted(spread[:11]), sorted(spread[:11])[1:], strict=False)]
    assert max(gaps) <= 26


def test_time_is_shared_by_the_families_shares():
    pace = Pace(1e12, 1e12)
    cases = [case(1e6 + n, family) for family in ("linear", "bmm") for n in range(500)]
    lanes = make_lanes(cases, {})
    for _ in range(400):
        lane, _case = next_case(lanes, pace, longest_s=1.0, most_bytes=1e9)
        lane.spent_s += 0.01
    spent = {lane.family: lane.spent_s for lane in lanes}
    assert spent["linear"] / spent["bmm"] == pytest.approx(FAMILIES["linear"], rel=0.05)


def test_what_would_take_too_long_or_too_much_memory_is_passed_over():
    lane = Lane("linear", "float32", 1.0, [case(1e12), case(1e9), case(1e6)])
    pace = Pace(1e10, 1e10)
    assert next_case([lane], pace, longest_s=0.5, most_bytes=1e9)[1].flops == 1e9
    for _ in range(20):
        lane.learn(1e-3, 1.0)  # a thousand times slower than was guessed
    lane.waiting.insert(0, case(1e9))
    assert next_case([lane], pace, longest_s=0.5, most_bytes=1e9)[1].flops == 1e6
    assert next_case([lane], pace, longest_s=0.5, most_bytes=1e9) is None
    lane.ratios += [1.0] * 30  # that was a hiccup: what waited gets its turn
    assert next_case([lane], pace, longest_s=0.5, most_bytes=1e9)[1].flops == 1e9
    lane.waiting = [case(1.0)]
    assert next_case([lane], pace, longest_s=0.5, most_bytes=3) is None


class Clock:
    """Goes on when something takes time."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def take(self, seconds: float):
        def call() -> None:
            self.now_s += seconds

        return call


def test_the_cpu_is_timed_by_medians_of_batches_in_turn():
    clock, calls = Clock(), []
    work = [lambda n=n: (calls.append(n), clock.take(1e-5)()) for n in range(3)]
    timing = CpuTimer(clock).measure(work, 0.01)
    assert timing.seconds == pytest.approx(1e-5)
    assert timing.spread == pytest.approx(0, abs=1e-6)
    assert {calls.count(0), calls.count(1), calls.count(2)} <= set(range(100, 2000))


def test_a_call_longer_than_its_budget_is_timed_once_more():
    clock = Clock()
    times = iter([5.0, 1.0])
    timing = CpuTimer(clock).measure([lambda: clock.take(next(times))()], 0.05)
    assert timing.seconds == 1.0


class FakeCuda:
    """A device with a queue: work takes its time there, and the host waits only where told."""

    HZ = 2e9

    def __init__(self, host: Clock) -> None:
        self.host, self.device_s = host, 0.0
        self.idle_s = 0.0

    def launch(self, device_s: float, host_s: float):
        def call() -> None:
            self.host.now_s += host_s
            self._run(device_s)

        return call

    def _run(self, seconds: float) -> None:
        self.idle_s += max(0.0, self.host.now_s - self.device_s)
        self.device_s = max(self.device_s, self.host.now_s) + seconds

    def spin(self, cycles: int) -> None:
        self._run(cycles / self.HZ)

    def synchronize(self) -> None:
        self.host.now_s = max(self.host.now_s, self.device_s)

    def event(self) -> "FakeEvent":
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda, self.at_s = cuda, 0.0

    def record(self) -> None:
        self.at_s = max(self._cuda.device_s, self._cuda.host.now_s)

    def elapsed_time(self, other: "FakeEvent") -> float:
        return (other.at_s - self.at_s) * 1e3


@pytest.mark.parametrize(
    ("device_s", "host_s"), [(2e-6, 8e-6), (5e-3, 8e-6), (3e-5, 4e-3), (1e-6, 1e-6)]
)
def test_the_gpu_is_timed_without_the_hosts_pace(device_s, host_s):
    clock = Clock()
    cuda = FakeCuda(clock)
    timer = CudaTimer(cuda, clock)
    timing = timer.measure([cuda.launch(device_s, host_s)] * 3, 0.02)
    assert timing.seconds == pytest.approx(device_s, rel=1e-3)
