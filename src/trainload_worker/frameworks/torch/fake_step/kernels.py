"""Choices between kernels as torch's C++ half makes them where CUDA is built in; computes nothing.

Changes what composite operations do for the rest of the process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from trainload_worker.frameworks.torch.fake_step.capability import Capability
from trainload_worker.frameworks.torch.fake_step.recurrent import run_recurrent

aten = torch.ops.aten

_HALVES = (torch.float16, torch.bfloat16)
_CUDNN_BATCH_LIMIT = 880801
"""cuDNN's own batch norm takes no more examples while training (Normalization.cpp)."""

_OWN_KERNELS = ("silu_backward", "mish_backward", "native_channel_shuffle")
"""One kernel on CUDA, several operations where a device has none of its own."""

_libraries: list[Any] = []


def choose_kernels(capability: Capability) -> None:
    """Has composite operations on fake tensors choose as on a GPU of that capability."""
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)  # its registrations end with it
    choices = {
        "scaled_dot_product_attention": _attention(capability),
        "batch_norm": _batch_norm,
        "dropout": _dropout,
        "linear": _linear,
        "rms_norm": _rms_norm,
        "lstm.input": _lstm,
        "gru.input": _recurrent(3),
        "rnn_tanh.input": _recurrent(1),
        "rnn_relu.input": _recurrent(0),
        "lstm.data": _packed_lstm,
        "gru.data": _packed(3),
        "rnn_tanh.data": _packed(1),
        "rnn_relu.data": _packed(0),
    }
    for name, choice in choices.items():
        for key in ("AutogradXLA", "XLA"):
            library.impl(name, choice, key)
    for name in _OWN_KERNELS:
        library.impl(name, _unreached, "XLA")


def _unreached(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("a fake operation is answered before it comes to its kernel")


def _dropout(source: Any, p: float, train: bool) -> Any:
    """Dropout.cpp: one kernel that keeps a bool mask."""
    if not train or p == 0:
        return source
    if not 0 < p < 1:
        return source * torch.zeros((), dtype=source.dtype, device=source.device)
    return torch.native_dropout(source, p, train)[0]


def _linear(source: Any, weight: Any, bias: Any = None) -> Any:
    """Linear.cpp, which takes a way of its own for XLA."""
    if bias is not None and source.dim() == 2:
        return torch.addmm(bias, source, weight.t())
    if bias is not None and source.dim() > 2 and source.is_contiguous():
        flat = torch.addmm(bias, source.reshape(-1, source.shape[-1]), weight.t())
        return flat.view(*source.shape[:-1], flat.shape[-1])
    product = torch.matmul(source, weight.t())
    return product if bias is None else product.add_(bias)


def _batch_norm(
    source: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """Normalization.cpp, _batch_norm_impl_index."""
    halves = source.dtype is torch.bfloat16 or (
        source.dtype is torch.float16 and weight is not None and weight.dtype is not torch.float32
    )
    given = weight is not None and bias is not None
    both = (mean is None) == (variance is None) and (mean is not None or training)
    rest = (weight, bias, mean, variance, training, momentum, eps)
    few = source.dim() >= 3 and source.shape[0] <= _CUDNN_BATCH_LIMIT
    if cudnn_enabled and training and given and both and few and not halves and eps >= 1e-5:
        source = source.contiguous(memory_format=_suggested(source))
        return torch.cudnn_batch_norm(source, *rest)[0]
    return torch.native_batch_norm(source, *rest)[0]


def _suggested(source: Any) -> Any:
    last = source.dim() == 4 and source.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last and not source.is_contiguous() else torch.contiguous_format


def _rms_norm(source: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """layer_norm.cpp: one kernel where weight and input have the same type."""
    if weight is None or weight.dtype is source.dtype:
        return torch.ops.aten._fused_rms_norm(source, list(shape), weight, eps)[0]
    wide = source.float()
    dims = list(range(-len(shape), 0))
    floor = eps if eps is not None else torch.finfo(source.dtype).eps
    scaled = wide * torch.rsqrt(wide.pow(2).mean(dims, keepdim=True).add_(floor))
    return (scaled * weight).to(source.dtype)


def _lstm(source: Any, states: Any, weights: Any, *options: Any) -> Any:
    return run_recurrent(2, source, states[0], states[1], weights, *options)


def _recurrent(mode: int) -> Any:
    def run(source: Any, state: Any, weights: Any, *options: Any) -> Any:
        return run_recurrent(mode, source, state, None, weights, *options)[:2]

    return run


def _packed_lstm(source: Any, sizes: Any, states: Any, weights: Any, *options: Any) -> Any:
    rest = (states[0], states[1], weights, *options, False, sizes.tolist())
    return run_recurrent(2, source, *rest)


def _packed(mode: int) -> Any:
    def run(source: Any, sizes: Any, state: Any, weights: Any, *options: Any) -> Any:
        rest = (weights, *options, False, sizes.tolist())
        return run_recurrent(mode, source, state, None, *rest)[:2]

    return run


def _attention(capability: Capability) -> Any:
    """attention.cpp: cuDNN first on Hopper and Blackwell, then flash, efficient, math."""

    def attend(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        kernel = choose_attention(query, key, value, attn_mask, capability, enable_gqa)
        keep = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if attn_mask is not None and attn_mask.dtype is torch.bool and kernel != "math":
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(
                attn_mask.logical_not(), float("-inf")
            )
        if kernel == "cudnn":
            return aten._scaled_dot_product_cudnn_attention(
                query, key, value, attn_mask, keep, dropout_p, is_causal, False, scale=scale
            )[0]
        if kernel == "flash":
            return _flash(query, key, value, dropout_p, is_causal, scale)
        if kernel == "efficient":
            mask = None if attn_mask is None else _aligned_mask(attn_mask, query, key)
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, mask, keep, dropout_p, is_causal, scale=scale
            )[0]
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale,
            enable_gqa=enable_gqa,
        )[0]  # fmt: skip

    return attend


def choose_attention(
    query: Any, key: Any, value: Any, mask: Any, capability: Capability, grouped: bool
) -> str:
    """The kernel that CUDA takes: cudnn, flash, efficient or math.

    The capability is asked last, where it decides: other GPUs then share the trace.
    """
    if query.dim() != 4 or not (query.dtype == key.dtype == value.dtype):
        return "math"
    # Of the fused kernels only the memory-efficient one gives a learned bias its gradient.
    learned = mask is not None and mask.requires_grad
    width, wide = query.shape[-1], value.shape[-1]
    half = query.dtype in _HALVES
    backends = torch.backends.cuda
    if (
        half
        and not learned
        and backends.cudnn_sdp_enabled()
        and width % 8 == 0
        and wide % 8 == 0
        and max(width, wide) <= 128
        and query.shape[2] > 1
        and capability.at_least((9, 0))
        and not capability.at_least((11, 0))
    ):
        return "cudnn"
    if (
        half
        and backends.flash_sdp_enabled()
        and mask is None
        and width == key.shape[-1] == wide <= 256
        and capability.at_least((8, 0))
    ):
        return "flash"
    alignment = 8 if half else 4
    if (
        backends.mem_efficient_sdp_enabled()
        and (mask is None or mask.stride(-1) == 1)
        and (half or query.dtype is torch.float32)
        and not grouped
        and (
            width % alignment == wide % alignment == 0 or not (half or capability.at_least((8, 0)))
        )
    ):
        return "efficient"
    return "math"


def _flash(query: Any, key: Any, value: Any, rate: float, causal: bool, scale: Any) -> Any:
    width = query.shape[-1]
    if width % 8:
        missing = 8 - width % 8
        query, key, value = (functional.pad(t, (0, missing)) for t in (query, key, value))
        scale = width**-0.5 if scale is None else scale
    out = aten._scaled_dot_product_flash_attention(
        query, key, value, rate, causal, False, scale=scale
    )[0]
    return out[..., :width] if width % 8 else out


def _aligned_mask(mask: Any, query: Any, key: Any) -> Any:
    """The kernel reads 16 columns at once: a narrower mask is padded and cut."""
    last = mask.shape[-1]
    if last % 16:
        mask = functional.pad(mask, (0, 16 - last % 16))[..., :last]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
