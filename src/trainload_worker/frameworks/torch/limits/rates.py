"""Rates of torch's kernels: matrix products by threads and number type, copies on and to a GPU."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict

import torch

from trainload_worker.frameworks.torch.limits.trainings import timed_s
from trainload_worker.limits.sampling import Key, Lacking, Place, key, measured, sample_rounds
from trainload_worker.protocol.measure import Measured

_CPU_SIDE = 1024
_CUDA_SIDE = 8192
_SAMPLE_S = 0.05
_COPY_BYTES = 1 << 30


def measure_matrices(place: Place) -> Measured:
    """Operations a second of a square product, two for each multiplication and addition."""
    conditions: Dict[Key, Callable[[], float]] = {}
    for threads in sorted({1, len(place.cores)}):
        conditions[key(device="cpu", dtype="float32", threads=threads)] = _on_cpu(
            torch.float32, threads
        )
    conditions[key(device="cpu", dtype="bfloat16", threads=len(place.cores))] = _on_cpu(
        torch.bfloat16, len(place.cores)
    )
    if torch.cuda.is_available():
        for name, dtype, tf32 in (
            ("float32", torch.float32, False),
            ("tf32", torch.float32, True),
            ("bfloat16", torch.bfloat16, False),
            ("float16", torch.float16, False),
        ):
            conditions[key(device="cuda", dtype=name)] = _on_cuda(dtype, tf32)
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = f"torch.mm of side {_CPU_SIDE} on the CPU, {_CUDA_SIDE} on the GPU"
    return measured("matrix-rate", "FLOP/s", readings, method)


def measure_copies(place: Place) -> Measured:
    """Bytes a second in the GPU's memory, read and written counted, and to and from the host."""
    if not torch.cuda.is_available():
        raise Lacking("no GPU that torch can use is here")
    device = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(device)
    host = torch.empty(_COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    conditions: Dict[Key, Callable[[], float]] = {
        key(path="device"): lambda: 2 * _copy_rate(other, device),
        key(path="to device"): lambda: _copy_rate(device, host),
        key(path="from device"): lambda: _copy_rate(host, device),
    }
    readings = sample_rounds(conditions, place.rounds, place.check)
    method = "copies of 1 GiB, the host's memory pinned; on the device two bytes for each copied"
    return measured("device-bandwidth", "bytes/s", readings, method)


def _copy_rate(target: Any, source: Any) -> float:
    torch.cuda.synchronize()
    call = partial(target.copy_, source, non_blocking=True)
    return _COPY_BYTES / timed_s(call, torch.cuda.synchronize, 5)


def _on_cpu(dtype: Any, threads: int) -> Callable[[], float]:
    left, right = (torch.randn(_CPU_SIDE, _CPU_SIDE).to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    flop = 2.0 * _CPU_SIDE**3

    def measure() -> float:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            call = partial(torch.mm, left, right, out=out)
            once_s = timed_s(call, lambda: None, 1)
            return flop / timed_s(call, lambda: None, max(1, int(_SAMPLE_S / once_s)))
        finally:
            torch.set_num_threads(before)

    return measure


def _on_cuda(dtype: Any, tf32: bool) -> Callable[[], float]:
    left, right = (torch.randn(_CUDA_SIDE, _CUDA_SIDE, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty_like(left)

    def measure() -> float:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        try:
            call = partial(torch.mm, left, right, out=out)
            timed_s(call, torch.cuda.synchronize, 1)
            return 2.0 * _CUDA_SIDE**3 / timed_s(call, torch.cuda.synchronize, 10)
        finally:
            torch.set_float32_matmul_precision(before)

    return measure
