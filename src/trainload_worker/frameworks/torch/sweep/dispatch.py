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
_KINDS = 11
_PAIRS = 25


def measure_dispatch(
    device: str, synchronize: Callable[[], None], limit_s: float
) -> Dict[str, float]:
    """Host seconds by kind of work; each is the median of several rounds within about the limit.

    operation: one without gradients; recorded: one that autograd records; linear, conv, norm: such
    calls; module: what calling a module adds; forward and backward: one operation of a chain of
    linear layers and ReLUs, modules and autograd with it; optimizer and optimizer_fused: one step
    of AdamW with 100 weights; synchronise: reading one number.
    """
    x = torch.ones(4, 4, device=device)
    g = torch.ones(4, 4, device=device, requires_grad=True)
    image = torch.ones(1, 4, 4, 4, device=device)
    filters = torch.ones(4, 4, 3, 3, device=device, requires_grad=True)
    ones = torch.ones(4, device=device, requires_grad=True)
    identity = torch.nn.Identity()

    each_s = limit_s / _KINDS

    def timed(call: Callable[[], Any], count: int = _COUNT) -> float:
        return _median_s(call, count, synchronize, each_s)

    found = {
        "operation": timed(lambda: torch.add(x, x)),
        "recorded": timed(lambda: torch.add(g, g)),
        "linear": timed(lambda: functional.linear(x, g)),
        "conv": timed(lambda: functional.conv2d(image, filters)),
        "norm": timed(lambda: functional.layer_norm(x, (4,), ones, ones)),
        "module": timed(lambda: identity(x)),
        **_chain_s(device, synchronize, each_s),
        "synchronise": timed(lambda: x[0, 0].item(), 20),
    }
    for name, chosen in (("optimizer", {}), ("optimizer_fused", {"fused": True})):
        step = _step_of(device, chosen)
        found[name] = timed(step, 1)
    return found


def step_small_weights(device: str) -> None:
    """One step of each kind of optimizer."""
    for chosen in ({}, {"fused": True}):
        _step_of(device, chosen)()


def _median_s(
    call: Callable[[], Any], count: int, synchronize: Callable[[], None], limit_s: float
) -> float:
    def once() -> float:
        synchronize()
        start_s = perf_counter()
        for _ in range(count):
            call()
        return (perf_counter() - start_s) / count

    once()
    return _median_of(once, limit_s)


def _chain_s(device: str, synchronize: Callable[[], None], limit_s: float) -> Dict[str, float]:
    """One operation of a small model, on its way forward and back.

    A pair of layers has two operations forward, and four back: two products, the bias's sum and
    the ReLU's.
    """
    layers = [layer for _ in range(_PAIRS) for layer in (torch.nn.Linear(4, 4), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers).to(device)
    x = torch.ones(4, 4, device=device, requires_grad=True)

    def forward_s() -> float:
        synchronize()
        start_s = perf_counter()
        net(x)
        return (perf_counter() - start_s) / (2 * _PAIRS)

    def backward_s() -> float:
        net.zero_grad()
        x.grad = None
        total = net(x).sum()
        synchronize()
        start_s = perf_counter()
        total.backward()
        return (perf_counter() - start_s) / (4 * _PAIRS)

    found = {}
    for name, take in (("forward", forward_s), ("backward", backward_s)):
        take()
        found[name] = _median_of(take, limit_s)
    return found


def _median_of(take: Callable[[], float], limit_s: float) -> float:
    """The median of three samples or more, up to fifteen while there is time."""
    samples = [take()]
    start_s = perf_counter()
    while len(samples) < 3 or (len(samples) < _ROUNDS and perf_counter() - start_s < limit_s):
        samples.append(take())
    return median(samples)


def _step_of(device: str, chosen: Dict[str, Any]) -> Callable[[], Any]:
    weights = [torch.ones(4, device=device, requires_grad=True) for _ in range(100)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    rule = torch.optim.AdamW(weights, **chosen)
    return lambda: rule.step()
