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
_KINDS = 16
_PAIRS = 25
_BLOCKS = 8
_TIME_STEPS = 32


def measure_dispatch(
    device: str, synchronize: Callable[[], None], limit_s: float
) -> Dict[str, float]:
    """Host seconds by kind of work; each is the median of several rounds within about the limit.

    operation: one without gradients; recorded: one that autograd records; linear, conv, norm: such
    calls; module: what calling a module adds; forward and backward: one operation of a chain of
    linear layers and ReLUs, modules and autograd with it; optimizer and optimizer_fused: one step
    of AdamW with 100 weights; synchronise: reading one number. In whole steps, where the
    processor's caches hold more than one kind of call, both ways for each operation forward:
    step_conv of a residual network, step_transformer, step_cast of what autocast adds for each
    cast forward; step_lstm and step_gru for each layer and time step.
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
    return {**found, **_steps_s(device, synchronize, each_s)}


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


class _Residual(torch.nn.Module):  # type: ignore[misc]
    """Seven operations forward: two convolutions, norms and ReLUs, and an addition."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = (torch.nn.Conv2d(8, 8, 3, padding=1, bias=False) for _ in "12")
        self.norm1, self.norm2 = torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8)
        self.relu = torch.nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + x)


class _Attending(torch.nn.Module):  # type: ignore[misc]
    """Eleven operations forward: two norms, four products, attention, a copy, GELU, two sums."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(16), torch.nn.LayerNorm(16)
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.gelu = torch.nn.GELU()

    def forward(self, x: Any) -> Any:
        parts = self.qkv(self.norm1(x)).view(1, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts)
        x = x + self.out(mixed.transpose(1, 2).reshape(1, 8, 16))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class _Last(torch.nn.Module):  # type: ignore[misc]
    """A recurrent layer's places without its states."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


def _steps_s(device: str, synchronize: Callable[[], None], limit_s: float) -> Dict[str, float]:
    """One operation forward with all that belongs to it, in steps of small models."""
    residual = torch.nn.Sequential(*(_Residual() for _ in range(_BLOCKS))).to(device)
    attending = torch.nn.Sequential(*(_Attending() for _ in range(_BLOCKS))).to(device)
    image, words = torch.ones(1, 8, 8, 8, device=device), torch.ones(1, 8, 16, device=device)
    series = torch.ones(_TIME_STEPS, 4, 8, device=device)

    def step_s(net: Any, x: Any, halves: bool = False) -> float:
        def once() -> float:
            synchronize()
            start_s = perf_counter()
            net.zero_grad(set_to_none=True)
            with torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=halves):
                total = net(x).float().sum()
            total.backward()
            return perf_counter() - start_s

        once()
        return _median_of(once, limit_s)

    plain_s = step_s(attending, words)
    # Weights and biases of four products, and the inputs of the two that follow a norm.
    casts_s = step_s(attending, words, halves=True) - plain_s
    found = {
        "step_conv": step_s(residual, image) / (7 * _BLOCKS),
        "step_transformer": plain_s / (11 * _BLOCKS),
    }
    if casts_s > 0:
        found["step_cast"] = casts_s / (10 * _BLOCKS)
    for name, kind in (("step_lstm", torch.nn.LSTM), ("step_gru", torch.nn.GRU)):
        layer = _Last(kind(8, 8, 2)).to(device)
        found[name] = step_s(layer, series) / (2 * _TIME_STEPS)
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
