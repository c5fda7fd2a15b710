"""The devices that a sweep can time: what they are called, can do, and how they are timed."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Protocol, Sequence

import torch

from trainload_worker.errors import FrameworkError
from trainload_worker.frameworks.torch.sweep.dispatch import measure_dispatch, step_small_weights
from trainload_worker.frameworks.torch.sweep.timers import CpuTimer, CudaTimer, Timer


class Device(Protocol):
    """What a sweep needs to know of a device."""

    name: str
    kind: str
    place: str
    dtypes: Sequence[str]
    shares: Dict[str, float]
    timer: Timer
    method: str
    case_s: float
    """Samples of a case go on for that long."""
    longest_s: float
    """Of one call: a longer one runs at the rate of shorter ones."""
    cache_bytes: float
    most_bytes: float
    most_copies: int
    first_sizes: tuple[int, int]

    def warm_up(self) -> None:
        """Has torch load what it loads late, before any time counts."""
        ...

    def dispatch(self, limit_s: float) -> Dict[str, float]:
        """What the host takes to hand over work, by kind of work."""
        ...

    def recover(self) -> None:
        """Gives memory back after a case that the device refused."""
        ...


class CpuDevice:
    """This machine's cores, as many threads as torch was told to use."""

    kind = place = "cpu"
    case_s, longest_s = 0.05, 0.1
    # Of a last-level cache; more copies would mostly take time to make.
    cache_bytes, most_copies = float(64 << 20), 4
    most_bytes = float(1 << 30)
    first_sizes = (512, 1 << 22)
    shares = {"bfloat16": 0.4, "float16": 0.4}  # noqa: RUF012 - a constant of the class

    def __init__(self) -> None:
        self.name = _cpu_name()
        self.dtypes: Sequence[str] = ("float32", *_cpu_halves())
        self.timer: Timer = CpuTimer()
        self.method = (
            "CPU: medians of samples of 0.2 ms or more by the process's clock, up to 4 copies of "
            f"the operands in turn (64 MB), {torch.get_num_threads()} threads"
        )

    def warm_up(self) -> None:
        """An optimizer's first step loads much of torch."""
        step_small_weights(self.place)

    def dispatch(self, limit_s: float) -> Dict[str, float]:
        """What small operations take: a CPU has done what it was told when the call returns."""
        return measure_dispatch(self.place, lambda: None, limit_s)

    def recover(self) -> None:
        """Memory is given back with its tensors."""


class CudaDevice:
    """The first GPU that CUDA shows, which is the one of the setting."""

    kind = place = "cuda"
    case_s, longest_s = 0.02, 0.03
    most_copies = 16
    first_sizes = (2048, 1 << 25)
    shares = {"tf32": 0.7, "float16": 0.5}  # noqa: RUF012 - a constant of the class

    def __init__(self, cuda: Any = torch.cuda) -> None:
        self._cuda = cuda
        if not cuda.is_available():
            raise FrameworkError("torch shows no CUDA device here; calibrate another: --device cpu")
        properties = cuda.get_device_properties(0)
        self.name = str(properties.name)
        self.dtypes: Sequence[str] = _cuda_types((properties.major, properties.minor))
        free_bytes, _ = cuda.mem_get_info()
        self.most_bytes = float(free_bytes) / 2
        cache = getattr(properties, "L2_cache_size", 0) or 64 << 20
        self.cache_bytes = 2.0 * cache
        self.timer: Timer = CudaTimer(_TorchCuda(cuda))
        self.method = (
            "CUDA: medians of up to 7 samples of up to 100 calls between events, queued behind a "
            "spinning kernel so that the host's pace does not count; up to 16 copies of the "
            f"operands in turn, twice the L2 cache ({cache / 2**20:.0f} MB) together"
        )

    def warm_up(self) -> None:
        """An optimizer's first step loads much of torch."""
        step_small_weights(self.place)

    def dispatch(self, limit_s: float) -> Dict[str, float]:
        """What the host takes to hand over work, by kind of work."""
        return measure_dispatch(self.place, self._cuda.synchronize, limit_s)

    def recover(self) -> None:
        """Gives the allocator's memory back, so that the next case does not fail for it."""
        self._cuda.synchronize()
        self._cuda.empty_cache()


class _TorchCuda:
    """CUDA by torch's own calls."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def event(self) -> Any:
        """A new event that keeps its time."""
        return self._cuda.Event(enable_timing=True)

    def spin(self, cycles: int) -> None:
        """Has the device wait, in the stream: torch's own tests rest on this call."""
        self._cuda._sleep(cycles)

    def synchronize(self) -> None:
        """Waits until the device has done everything."""
        self._cuda.synchronize()


def _cuda_types(capability: tuple[int, int]) -> tuple[str, ...]:
    """Number types that a GPU of that compute capability has units for."""
    halves = ("float16",) if capability >= (5, 3) else ()
    return (
        ("float32", "tf32", "bfloat16", *halves) if capability >= (8, 0) else ("float32", *halves)
    )


def _cpu_words(*names: str) -> str:
    """The first line of the kernel's description of the CPU with one of these names."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in names:
                    return value.strip()
    except OSError:
        pass  # other systems have no such file: the name is then what the driver knows
    return ""


def _cpu_name() -> str:
    return _cpu_words("model name", "Hardware") or os.uname().machine


def _cpu_halves() -> List[str]:
    """The half types that the CPU has instructions for; others are computed by way of float32."""
    flags = set(_cpu_words("flags", "Features").split())
    found = []
    if flags & {"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}:
        found.append("bfloat16")
    if flags & {"avx512_fp16", "amx_fp16"}:
        found.append("float16")
    return found
