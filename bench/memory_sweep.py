"""Single operations whose output, kept and workspace bytes are to be measured; measures nothing.

A trial makes its tensors and returns a function that runs the operation forward and backward (or
one optimizer step) once. Trials are drawn with a fixed seed from grids of usual sizes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

MOST_BYTES = 3 << 30
MOST_FLOP = 2.5e12
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One operation with its sizes."""

    kind: str
    options: dict[str, Any]
    prepare: Callable[[], Callable[[], Any]]


def _trial(kind: str, make: Callable[..., Callable[[], Any]], **options: Any) -> Trial:
    return Trial(kind=kind, options=options, prepare=lambda: make(**options))


def _random(*shape: int, dtype: str = "float32", grad: bool = True) -> Any:
    return torch.randn(*shape, dtype=DTYPES[dtype], requires_grad=grad)


def _both(forward: Callable[[], Any]) -> Callable[[], Any]:
    """Forward, then backward with a gradient in the output's own layout."""

    def run() -> None:
        output = forward()
        output.backward(torch.ones_like(output))

    return run


def _convolution(
    *,
    dims: int = 2,
    batch: int,
    channels: int,
    filters: int,
    kernel: int,
    stride: int,
    size: int,
    groups: int = 1,
    dtype: str,
    tf32: bool = True,
    last: bool = False,
    transposed: bool = False,
) -> Callable[[], Any]:
    inputs = _random(batch, channels, *[size] * dims, dtype=dtype, grad=channels > 3)
    form = (filters, channels // groups, *[kernel] * dims)
    form = (channels, filters // groups, *[kernel] * dims) if transposed else form
    weight = _random(*form, dtype=dtype)
    if last:
        inputs = inputs.detach().to(memory_format=torch.channels_last)
        inputs.requires_grad_(channels > 3)
        weight = weight.detach().to(memory_format=torch.channels_last).requires_grad_()
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    call = getattr(functional, name)

    def forward() -> Any:
        torch.backends.cudnn.allow_tf32 = tf32
        padding = 0 if transposed else kernel // 2
        return call(inputs, weight, stride=stride, padding=padding, groups=groups)

    return _both(forward)


def _draw_convolution(draw: random.Random) -> dict[str, Any]:
    """Sizes such as occur: wide where small, depthwise and grouped now and then."""
    style = draw.choices(["full", "depthwise", "grouped", "one", "time"], [10, 2, 2, 3, 1])[0]
    channels = draw.choice([3, 16, 32, 64, 96, 128, 192, 256, 320, 512, 768, 1024])
    options = {
        "dims": 1 if style == "time" else 2,
        "batch": draw.choice([4, 8, 16, 32, 64, 128, 256]),
        "channels": channels,
        "filters": draw.choice([16, 32, 64, 96, 128, 192, 256, 384, 512, 1024]),
        "kernel": draw.choice([1, 3, 3, 3, 5, 7, 11]),
        "stride": draw.choice([1, 1, 1, 2]),
        "size": draw.choice([7, 14, 27, 28, 35, 56, 112, 112, 149, 224]),
        "dtype": "bf16",
    }
    if style == "depthwise":
        options |= {"channels": max(channels, 16), "groups": max(channels, 16)}
        options["filters"] = options["channels"]
    elif style == "grouped":
        options |= {"channels": 128 if channels < 128 else 256, "groups": 32, "filters": 256}
    elif style == "one":
        options["kernel"] = 1
    elif style == "time":
        options["size"] = draw.choice([400, 1600, 3200])
    mode = draw.choices(["tf32", "float32", "bf16"], [9, 3, 8])[0]
    options |= {"dtype": "bf16" if mode == "bf16" else "float32", "tf32": mode != "float32"}
    options["last"] = options["dims"] == 2 and draw.random() < 0.2
    return options


def _fits(options: dict[str, Any]) -> bool:
    places = options["batch"] * options["size"] ** options["dims"]
    after = places / options["stride"] ** options["dims"]
    wide = 2 if options["dtype"] == "bf16" else 4
    moved = wide * (places * options["channels"] + after * options["filters"])
    taps = options["kernel"] ** options["dims"] * options["channels"] / options.get("groups", 1)
    return moved < MOST_BYTES and 6 * after * options["filters"] * taps < MOST_FLOP


def convolutions(shard: int, shards: int) -> Iterator[Trial]:
    """Those worth knowing exactly, then drawn ones without end in sight; each shard its own."""
    fixed: list[dict[str, Any]] = []
    usual = {"channels": 64, "filters": 64, "kernel": 3, "stride": 1, "size": 224}
    modes = [("float32", True), ("float32", False), ("bf16", True)]
    for batch, (dtype, tf32), last in itertools.product((4, 16, 64), modes, (False, True)):
        fixed.append({**usual, "batch": batch, "dtype": dtype, "tf32": tf32, "last": last})
    for dtype, transposed in itertools.product(("float32", "bf16"), (True,)):
        for channels, size in ((512, 32), (256, 64), (128, 128)):
            sizes = {"batch": 16, "channels": channels, "filters": channels // 2, "size": size}
            more = {"kernel": 2, "stride": 2, "dtype": dtype, "transposed": transposed}
            fixed.append({**sizes, **more})
    for dtype, size, channels in itertools.product(("float32", "bf16"), (16, 32), (16, 64)):
        sizes = {"dims": 3, "batch": 4, "channels": channels, "filters": 64, "size": size}
        fixed.append({**sizes, "kernel": 3, "stride": 1, "dtype": dtype})
    for index, options in enumerate(fixed):
        if index % shards == shard:
            yield _trial("convolution", _convolution, **options)
    draw = random.Random(1000 + shard)
    for _ in range(3000):
        options = _draw_convolution(draw)
        if _fits(options):
            yield _trial("convolution", _convolution, **options)


def _linear(*, rows: int, before: int, after: int, bias: bool, dtype: str) -> Callable[[], Any]:
    inputs, weight = _random(rows, before, dtype=dtype), _random(after, before, dtype=dtype)
    shift = _random(after, dtype=dtype) if bias else None
    return _both(lambda: functional.linear(inputs, weight, shift))


def _autocast_linear(*, rows: int, before: int, after: int) -> Callable[[], Any]:
    layer = nn.Linear(before, after)
    inputs = _random(rows, before)

    def forward() -> Any:
        with torch.autocast(inputs.device.type, torch.bfloat16):
            return layer(inputs)

    return _both(forward)


def _bmm(*, batch: int, rows: int, inner: int, dtype: str) -> Callable[[], Any]:
    left, right = _random(batch, rows, inner, dtype=dtype), _random(batch, inner, rows, dtype=dtype)
    return _both(lambda: torch.bmm(left, right))


def products() -> Iterator[Trial]:
    """Matrix products through cuBLAS and cuBLASLt."""
    sizes = [(256, 75, 512), (4096, 768, 768), (4096, 768, 3072), (8192, 3072, 768)]
    sizes += [(4096, 768, 50257), (64, 25088, 4096), (256, 9216, 4096), (128, 2048, 1000)]
    for (rows, before, after), bias, dtype in itertools.product(sizes, (True, False), DTYPES):
        named = {"rows": rows, "before": before, "after": after}
        yield _trial("linear", _linear, **named, bias=bias, dtype=dtype)
    for rows, before, after in sizes:
        named = {"rows": rows, "before": before, "after": after}
        yield _trial("autocast_linear", _autocast_linear, **named)
    for (batch, rows, inner), dtype in itertools.product(
        [(96, 512, 64), (384, 128, 64), (16, 1024, 128)], DTYPES
    ):
        yield _trial("bmm", _bmm, batch=batch, rows=rows, inner=inner, dtype=dtype)


def _call(*, what: str, shape: list[int], dtype: str, **options: Any) -> Callable[[], Any]:
    """A function of torch.nn.functional or torch on one tensor."""
    inputs = _random(*shape, dtype=dtype)
    call = getattr(functional, what, None) or getattr(torch, what)
    return _both(lambda: call(inputs, **options))


def _norm(*, what: str, shape: list[int], dtype: str, last: bool = False) -> Callable[[], Any]:
    channels = shape[-1] if what == "LayerNorm" else shape[1]
    arguments = (8, channels) if what == "GroupNorm" else (channels,)
    layer = getattr(nn, what)(*arguments)
    inputs = _random(*shape, dtype=dtype)
    if last:
        inputs = inputs.detach().to(memory_format=torch.channels_last).requires_grad_()

    def forward() -> Any:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=dtype == "bf16"):
            return layer(inputs)

    return _both(forward)


def _attention(
    *, batch: int, heads: int, steps: int, width: int, dtype: str, backend: str, causal: bool
) -> Callable[[], Any]:
    parts = [_random(batch, heads, steps, width, dtype=dtype) for _ in range(3)]
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }

    def forward() -> Any:
        call = functional.scaled_dot_product_attention
        if backend == "default":
            return call(*parts, is_causal=causal, dropout_p=0.1)
        if backend == "masked":
            mask = torch.ones(batch, 1, steps, steps, dtype=torch.bool)
            return call(*parts, attn_mask=mask)
        with sdpa_kernel(backends[backend]):
            return call(*parts, is_causal=causal)

    return _both(forward)


def _cross_entropy(*, rows: int, classes: int, dtype: str) -> Callable[[], Any]:
    scores, targets = _random(rows, classes, dtype=dtype), torch.randint(0, classes, (rows,))

    def run() -> None:
        with torch.autocast(scores.device.type, torch.bfloat16, enabled=dtype == "bf16"):
            value = functional.cross_entropy(scores, targets)
        value.backward()

    return run


def _embedding(*, vocabulary: int, width: int, rows: int, steps: int) -> Callable[[], Any]:
    table = _random(vocabulary, width)
    tokens = torch.randint(0, vocabulary, (rows, steps))
    return _both(lambda: functional.embedding(tokens, table))


def _recurrent(
    *, what: str, width: int, hidden: int, layers: int, batch: int, steps: int, **options: Any
) -> Callable[[], Any]:
    dtype = options.pop("dtype")
    net = getattr(nn, what)(width, hidden, layers, batch_first=True, **options)
    inputs = _random(batch, steps, width)

    def forward() -> Any:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=dtype == "bf16"):
            return net(inputs)[0]

    return _both(forward)


def _optimizer(*, what: str, sizes: list[int], clip: bool = False, **options: Any) -> Any:
    parameters = [torch.zeros(size, requires_grad=True) for size in sizes]
    optimizer = getattr(torch.optim, what)(parameters, lr=1e-4, **options)

    def run() -> None:
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return run


def _points() -> Iterator[Trial]:
    image, text = [32, 64, 112, 112], [16, 512, 768]
    for what, shape, dtype in itertools.product(
        ("relu", "gelu", "silu", "dropout", "softmax", "log_softmax", "hardswish", "sigmoid"),
        (image, text),
        DTYPES,
    ):
        options = {"dim": -1} if "softmax" in what else {}
        yield _trial("point", _call, what=what, shape=shape, dtype=dtype, **options)
    for dtype in DTYPES:
        named = {"shape": image, "dtype": dtype}
        yield _trial("pool", _call, what="max_pool2d", kernel_size=3, stride=2, padding=1, **named)
        yield _trial("pool", _call, what="avg_pool2d", kernel_size=2, **named)
        yield _trial("pool", _call, what="adaptive_avg_pool2d", output_size=1, **named)
        yield _trial("point", _call, what="interpolate", scale_factor=2, **named)
        for what in ("sum", "mean", "var", "amax", "logsumexp"):
            yield _trial("reduce", _call, what=what, dim=1, **named)
            whole = {} if what not in ("logsumexp", "amax") else {"dim": (0, 1, 2, 3)}
            yield _trial("reduce", _call, what=what, **whole, **named)


def _norms() -> Iterator[Trial]:
    for dtype in DTYPES:
        for shape in ([16, 512, 768], [4096, 768], [8, 1024, 1024], [32, 56, 56, 96]):
            yield _trial("norm", _norm, what="LayerNorm", shape=shape, dtype=dtype)
        for shape in ([32, 64, 112, 112], [64, 256, 56, 56], [128, 2048, 7, 7], [4, 32, 224, 224]):
            for what in ("BatchNorm2d", "GroupNorm"):
                yield _trial("norm", _norm, what=what, shape=shape, dtype=dtype)
            yield _trial("norm", _norm, what="BatchNorm2d", shape=shape, dtype=dtype, last=True)


def _attentions() -> Iterator[Trial]:
    sizes = [(8, 12, 512, 64), (32, 12, 128, 64), (16, 12, 1024, 64), (32, 12, 197, 64)]
    sizes += [(8, 16, 512, 128), (64, 3, 49, 32)]
    backends = ("default", "masked", "flash", "efficient", "cudnn", "math")
    for (batch, heads, steps, width), dtype, backend, causal in itertools.product(
        sizes, DTYPES, backends, (False, True)
    ):
        if (backend in ("flash", "cudnn") and dtype == "float32") or (
            backend == "masked" and causal
        ):
            continue
        named = {"batch": batch, "heads": heads, "steps": steps, "width": width}
        yield _trial("attention", _attention, **named, dtype=dtype, backend=backend, causal=causal)


def _updates() -> Iterator[Trial]:
    bert = [30522 * 768] + [768 * 768, 768, 768 * 3072, 3072] * 24
    resnet = [64 * 3 * 49] + [64, 64 * 64 * 9, 256 * 64, 512 * 512 * 9, 2048 * 512] * 12
    makers: list[tuple[str, dict[str, Any]]] = [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
        ("Adam", {}),
        ("Adam", {"weight_decay": 1e-4}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {}),
        ("RMSprop", {}),
        ("Adagrad", {}),
        ("Adadelta", {}),
    ]
    for sizes, (what, options) in itertools.product((bert, resnet, [10**8]), makers):
        yield _trial("optimizer", _optimizer, what=what, sizes=sizes, **options)
    for what, more in itertools.product(
        ("SGD", "Adam", "AdamW"), ({"fused": True}, {"foreach": False}, {"clip": True})
    ):
        yield _trial("optimizer", _optimizer, what=what, sizes=bert, **more)


def others() -> Iterator[Trial]:
    """Everything that is neither a convolution nor a matrix product."""
    yield from _norms()
    yield from _attentions()
    for (rows, classes), dtype in itertools.product(
        [(128, 1000), (4096, 50257), (4096, 30522), (8192, 32000), (256, 10)], DTYPES
    ):
        yield _trial("cross_entropy", _cross_entropy, rows=rows, classes=classes, dtype=dtype)
    for vocabulary, width, rows, steps in (
        (50257, 768, 8, 512),
        (30522, 768, 32, 128),
        (10000, 650, 64, 35),
        (32000, 768, 8, 512),
        (1024, 1024, 1, 512),
        (512, 768, 16, 512),
    ):
        sizes = {"vocabulary": vocabulary, "width": width, "rows": rows, "steps": steps}
        yield _trial("embedding", _embedding, **sizes)
    for what, hidden, layers, (batch, steps), dtype in itertools.product(
        ("LSTM", "GRU", "RNN"), (200, 512), (1, 2), ((64, 35), (128, 100)), DTYPES
    ):
        sizes = {"width": hidden, "hidden": hidden, "layers": layers, "batch": batch}
        for more in ({}, {"bidirectional": True}, {"dropout": 0.3}):
            named = {"what": what, "steps": steps, "dtype": dtype, **sizes, **more}
            if layers == 1 and "dropout" in more:
                continue
            yield _trial("recurrent", _recurrent, **named)
    yield from _updates()
    yield from _points()


def trials(group: str) -> Iterator[Trial]:
    """The trials of a group: `products`, `others` or `convolution-<shard>of<shards>`."""
    if group == "products":
        return products()
    if group == "others":
        return others()
    shard, shards = group.removeprefix("convolution-").split("of")
    return convolutions(int(shard), int(shards))
