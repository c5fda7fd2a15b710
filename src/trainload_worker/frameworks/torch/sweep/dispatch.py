"""What the host takes to hand over one piece of work, on operands too small to keep a device busy.

On a CPU it is the whole of such an operation. Times of kernels are `timers`' duty.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any, Callable, Dict

import torch
from torch.nn import functional

_COUNT = 100
"""Calls between two waits: few enough for the driver's queue of launches."""
_ROUNDS = 15


def measure_dispatch(device: str, synchronize: Callable[[], None]) -> Dict[str, float]:
    """Host seconds by kind of work; each is the median of several rounds.

    operation: one without gradients; recorded: one that autograd records; linear, conv, norm: such
    calls; module: what calling a module adds; backward: one operation on the way back; optimizer
    and optimizer_fused: one step of AdamW with 100 weights; synchronise: reading one number.
    """
    x = torch.ones(4, 4, device=device)
    g = torch.ones(4, 4, device=device, requires_grad=True)
    image = torch.ones(1, 4, 4, 4, device=device)
    filters = torch.ones(4, 4, 3, 3, device=device, requires_grad=True)
    ones = torch.ones(4, device=device, requires_grad=True)
    identity = torch.nn.Identity()

    def timed(call: Callable[[], Any], count: int = _COUNT) -> float:
        return _median_s(call, count, synchronize)

    found = {
        "operation": timed(lambda: torch.add(x, x)),
        "recorded": timed(lambda: torch.add(g, g)),
        "linear": timed(lambda: functional.linear(x, g)),
        "conv": timed(lambda: functional.conv2d(image, filters)),
        "norm": timed(lambda: functional.layer_norm(x, (4,), ones, ones)),
        "module": timed(lambda: identity(x)),
        "backward": _backward_s(g, synchronize),
        "synchronise": timed(lambda: x[0, 0].item(), 20),
    }
    for name, chosen in (("optimizer", {}), ("optimizer_fused", {"fused": True})):
        step = _step_of(device, chosen)
        found[name] = timed(step, 1)
    return found


def _median_s(call: Callable[[], Any], count: int, synchronize: Callable[[], None]) -> float:
    samples = []
    for number in range(_ROUNDS + 2):
        synchronize()
        start_s = perf_counter()
        for _ in range(count):
            call()
        taken_s = (perf_counter() - start_s) / count
        if number >= 2:
            samples.append(taken_s)
    return median(samples)


def _backward_s(g: Any, synchronize: Callable[[], None]) -> float:
    """One of a chain of additions on the way back, what the first needs left out."""

    def chain_s(length: int) -> float:
        samples = []
        for _ in range(_ROUNDS):
            result = g
            for _ in range(length):
                result = torch.add(result, g)
            total = result.sum()
            synchronize()
            start_s = perf_counter()
            total.backward()
            samples.append(perf_counter() - start_s)
            g.grad = None
        return median(samples)

    short, long = 10, 10 + _COUNT
    return max((chain_s(long) - chain_s(short)) / (long - short), 1e-9)


def _step_of(device: str, chosen: Dict[str, Any]) -> Callable[[], Any]:
    weights = [torch.ones(4, device=device, requires_grad=True) for _ in range(100)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    rule = torch.optim.AdamW(weights, **chosen)
    return lambda: rule.step()
