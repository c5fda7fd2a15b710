"""One call of each operation of a sweep, on operands that it makes; times nothing.

A case has several copies of its operands, so that calls in turn do not find theirs in a cache
that the copies together exceed.
"""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Sequence

import torch
from torch.nn import functional

from trainload_worker.frameworks.torch.sweep.cases import Case
from trainload_worker.frameworks.torch.sweep.counting import output_length, padding_of

Call = Callable[[], Any]
DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def build_calls(case: Case, device: str, copies: int) -> List[Call]:
    """The call on each of so many copies of its operands; memory is taken when this is called."""
    _allow_tf32(case.dtype == "tf32")
    make = _Make(device, DTYPES[case.dtype])
    build = _BUILDERS[case.operation.replace("_backward", "")]
    backward = case.operation.endswith("_backward")
    return [build(case, make, backward) for _ in range(copies)]


def _allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


class _Make:
    """Tensors of one device and number type."""

    def __init__(self, device: str, dtype: Any) -> None:
        self.device, self.dtype = device, dtype

    def normal(self, *shape: int, grad: bool = False) -> Any:
        """Small numbers, so that nothing overflows in half precision."""
        made = torch.randn(shape, device=self.device, dtype=self.dtype).mul_(0.1)
        return made.requires_grad_(grad)

    def image(self, sizes: Mapping[str, int], *shape: int, grad: bool = False) -> Any:
        """The same with its channels innermost where the sizes say so."""
        made = self.normal(*shape)
        if sizes.get("channels_last"):
            made = made.contiguous(memory_format=torch.channels_last)
        return made.requires_grad_(grad)

    def indices(self, count: int, below: int) -> Any:
        """Rows of a table, at random."""
        return torch.randint(below, (count,), device=self.device)


def _gradient_call(result: Any, of: Sequence[Any]) -> Call:
    """The backward pass of `result` alone, as often as it is called."""
    given = torch.randn_like(result).mul_(0.1)
    inputs = list(of)
    return lambda: torch.autograd.grad(result, inputs, given, retain_graph=True)


def _linear(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    x, w = make.normal(s["m"], s["k"]), make.normal(s["n"], s["k"])
    return lambda: functional.linear(x, w)


def _bmm(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    a, b = make.normal(s["batch"], s["m"], s["k"]), make.normal(s["batch"], s["k"], s["n"])
    return lambda: torch.bmm(a, b)


def _conv(case: Case, make: _Make, _backward: bool) -> Call:
    s, (x, w, _) = case.sizes, _conv_operands(case.sizes, make)
    stride, padding, groups = s["stride"], padding_of(s["kernel"]), s["groups"]
    return lambda: functional.conv2d(x, w, None, stride, padding, 1, groups)


def _conv_gradient(wanted: Sequence[bool]) -> Callable[[Case, _Make, bool], Call]:
    mask = list(wanted)

    def build(case: Case, make: _Make, _backward: bool) -> Call:
        s, (x, w, g) = case.sizes, _conv_operands(case.sizes, make)
        stride, padding = [s["stride"]] * 2, [padding_of(s["kernel"])] * 2
        call, groups = torch.ops.aten.convolution_backward.default, s["groups"]
        return lambda: call(g, x, w, None, stride, padding, [1, 1], False, [0, 0], groups, mask)

    return build


def _conv_operands(s: Mapping[str, int], make: _Make) -> tuple[Any, Any, Any]:
    kernel, stride = s["kernel"], s["stride"]
    out_h, out_w = (output_length(s[side], kernel, stride) for side in ("height", "width"))
    return (
        make.image(s, s["batch"], s["in_channels"], s["height"], s["width"]),
        make.image(s, s["out_channels"], s["in_channels"] // s["groups"], kernel, kernel),
        make.image(s, s["batch"], s["out_channels"], out_h, out_w),
    )


def _attention(case: Case, make: _Make, backward: bool) -> Call:
    s, causal = case.sizes, bool(case.sizes["causal"])
    shapes = [(s["batch"], s["heads"], s[of], s["head_size"]) for of in ("queries", "keys", "keys")]
    q, k, v = (make.normal(*shape, grad=backward) for shape in shapes)

    def call() -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return _gradient_call(call(), (q, k, v)) if backward else call


def _norm(case: Case, make: _Make, backward: bool) -> Call:
    s = case.sizes
    # Weights and running means stay float32 under autocast; the kernels take them beside halves.
    if "channels" in s:
        x = make.image(s, s["batch"], s["channels"], s["height"], s["width"], grad=backward)
        w, b = (torch.ones(s["channels"], device=make.device) for _ in range(2))
        means, variances = torch.zeros_like(b), torch.ones_like(b)

        def call() -> Any:
            return functional.batch_norm(x, means, variances, w, b, training=True)

    else:
        x = make.normal(s["rows"], s["width"], grad=backward)
        w, b = (torch.ones(s["width"], device=make.device, dtype=make.dtype) for _ in range(2))

        def call() -> Any:
            return functional.layer_norm(x, (s["width"],), w, b)

    if not backward:
        return call
    weights = (w.requires_grad_(True), b.requires_grad_(True))
    return _gradient_call(call(), (x, *weights))


def _softmax(case: Case, make: _Make, backward: bool) -> Call:
    x = make.normal(case.sizes["rows"], case.sizes["width"], grad=backward)
    if backward:
        return _gradient_call(torch.softmax(x, -1), (x,))
    return lambda: torch.softmax(x, -1)


def _pool(case: Case, make: _Make, backward: bool) -> Call:
    s = case.sizes
    x = make.normal(s["batch"], s["channels"], s["height"], s["width"], grad=True)
    kernel, stride, padding = s["kernel"], s["stride"], padding_of(s["kernel"])

    def call() -> Any:
        return functional.max_pool2d(x, kernel, stride, padding)

    return _gradient_call(call(), (x,)) if backward else call


def _reduction(case: Case, make: _Make, _backward: bool) -> Call:
    x = make.normal(case.sizes["rows"], case.sizes["width"])
    return lambda: torch.sum(x, -1)


def _elementwise(case: Case, make: _Make, _backward: bool) -> Call:
    x = make.normal(case.sizes["elements"])
    if case.sizes.get("random"):
        return lambda: x.bernoulli_(0.9)
    in_place = case.sizes.get("in_place")
    if case.sizes["operands"] == 2:
        return (lambda: x.mul_(1.0)) if in_place else lambda: torch.relu(x)
    y = make.normal(case.sizes["elements"])
    return (lambda: x.add_(y, alpha=1e-6)) if in_place else lambda: torch.add(x, y)


def _gather(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    table, chosen = make.normal(s["table"], s["width"]), make.indices(s["rows"], s["table"])
    return lambda: functional.embedding(chosen, table)


def _scatter(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    given, chosen = make.normal(s["rows"], s["width"]), make.indices(s["rows"], s["table"])
    call, rows = torch.ops.aten.embedding_dense_backward.default, s["table"]
    return lambda: call(given, chosen, rows, -1, False)


def _recurrent(kind: Any) -> Callable[[Case, _Make, bool], Call]:
    def build(case: Case, make: _Make, backward: bool) -> Call:
        s = case.sizes
        net = kind(s["input"], s["hidden"], s["layers"], device=make.device, dtype=make.dtype)
        x = make.normal(s["steps"], s["batch"], s["input"], grad=True)
        if not backward:
            return lambda: net(x)
        return _gradient_call(net(x)[0], (x, *net.parameters()))

    return build


def _optimizer(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    each = max(1, s["elements"] // s["tensors"])
    weights = [make.normal(each, grad=True) for _ in range(s["tensors"])]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    chosen: dict[str, Any] = {"fused": True} if s["fused"] else {}
    if s["moments"] == 2:
        rule: Any = torch.optim.AdamW(weights, lr=1e-4, **chosen)
    else:
        rule = torch.optim.SGD(weights, lr=1e-4, momentum=0.9 * s["moments"], **chosen)
    return lambda: rule.step()


def _copy(case: Case, make: _Make, _backward: bool) -> Call:
    s = case.sizes
    target = torch.empty(s["elements"], device=make.device)
    home = "cpu" if s["from_host"] else make.device
    pinned = bool(s["pinned"])
    source = torch.zeros(s["elements"], device=home, pin_memory=pinned)
    return lambda: target.copy_(source, non_blocking=pinned)


_BUILDERS: Mapping[str, Callable[[Case, _Make, bool], Call]] = {
    "linear": _linear,
    "bmm": _bmm,
    "conv": _conv,
    "conv_grad_input": _conv_gradient((True, False, False)),
    "conv_grad_weight": _conv_gradient((False, True, False)),
    "attention": _attention,
    "norm": _norm,
    "softmax": _softmax,
    "pool": _pool,
    "reduction": _reduction,
    "elementwise": _elementwise,
    "gather": _gather,
    "scatter": _scatter,
    "lstm": _recurrent(torch.nn.LSTM),
    "gru": _recurrent(torch.nn.GRU),
    "optimizer": _optimizer,
    "copy": _copy,
}
