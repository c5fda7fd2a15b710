"""A GPU that is not there: torch.cuda answers as if, and composite operations choose as on CUDA.

Changes torch's own functions for the rest of the process, which traces and then ends.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

from trainload_worker.frameworks.torch.fake_step.recurrent import run_recurrent
from trainload_worker.frameworks.torch.fake_step.tensors import CUDA, FakeTensor, open_autograd

aten = torch.ops.aten

_HALVES = (torch.float16, torch.bfloat16)
_MEMORY_BYTES = 80 << 30
_CUDNN_VERSION = 91900
_CUDNN_BATCH_LIMIT = 880801
"""cuDNN's own batch norm takes no more examples while training (Normalization.cpp)."""

_OWN_KERNELS = ("silu_backward", "mish_backward", "native_channel_shuffle")
"""One kernel on CUDA, several operations where a device has none of its own."""

_RNN_MODES = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}
"""Numbered as in cudnn.h."""

_libraries: list[Any] = []


def stand_in(capability: tuple[int, int]) -> None:
    """Everything that makes a program take its way on CUDA, for a GPU of that capability."""
    open_autograd()
    _answer_questions(capability)
    take_cpu()
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
    }
    for name, choice in choices.items():
        for key in ("AutogradXLA", "XLA"):
            library.impl(name, choice, key)
    for name in _OWN_KERNELS:
        library.impl(name, _unreached, "XLA")


def take_cpu() -> None:
    """The CPU alone: nothing is pretended but that tensors have numbers."""
    _take_fake_optimizers()
    _draw_nothing()


def _draw_nothing() -> None:
    """Numbers drawn again until all are small enough would be asked for."""
    plain = torch.nn.init._no_grad_trunc_normal_

    def draw(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor if isinstance(tensor, FakeTensor) else plain(tensor, *args, **kwargs)

    torch.nn.init._no_grad_trunc_normal_ = draw


def _take_fake_optimizers() -> None:
    """torch.optim takes its foreach kernels for plain tensors alone, by exact type."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    kinds = getattr(_foreach_utils, "_foreach_supported_types", None)
    for found in (kinds, getattr(optimizer, "_foreach_supported_types", None)):
        if isinstance(found, list) and FakeTensor not in found:
            found.append(FakeTensor)


def _answer_questions(capability: tuple[int, int]) -> None:
    cuda = torch.cuda
    torch._C._set_only_lift_cpu_tensors(True)
    properties = SimpleNamespace(
        name="a GPU that is not there",
        major=capability[0],
        minor=capability[1],
        total_memory=_MEMORY_BYTES,
        multi_processor_count=132,
        uuid=None,
    )
    answers: dict[str, Any] = {
        "_lazy_init": _saying(None),
        "init": _saying(None),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        # Torch's autocast takes bf16 on every GPU; older ones emulate it.
        "is_bf16_supported": lambda including_emulation=True: (
            including_emulation or capability >= (8, 0)
        ),
        "device_count": lambda: 1,
        "current_device": _saying(0),
        "set_device": _saying(None),
        "synchronize": _saying(None),
        "empty_cache": _saying(None),
        "ipc_collect": _saying(None),
        "get_device_name": lambda *_args: properties.name,
        "get_device_capability": lambda *_args: capability,
        "get_device_properties": lambda *_args: properties,
        "mem_get_info": lambda *_args: (_MEMORY_BYTES, _MEMORY_BYTES),
        "memory_stats": lambda *_args: {},
        "memory_summary": lambda *_args, **_kwargs: "",
        "manual_seed": _saying(None),
        "manual_seed_all": _saying(None),
        "seed": _saying(None),
        "seed_all": _saying(None),
        "get_rng_state": lambda *_args: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state": _saying(None),
        "set_rng_state_all": _saying(None),
        "Event": _Event,
        "Stream": _Stream,
        "stream": lambda *_args: contextlib.nullcontext(),
        "device": lambda *_args: contextlib.nullcontext(),
        "current_stream": lambda *_args: _Stream(),
        "default_stream": lambda *_args: _Stream(),
        "set_stream": _saying(None),
        "_exchange_device": _saying(0),
        "_maybe_exchange_device": _saying(0),
        "set_per_process_memory_fraction": _saying(None),
    }
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        answers[name] = _saying(0)
    for name in ("max_memory_reserved", "utilization"):
        answers[name] = _saying(0)
    for name in (
        "reset_peak_memory_stats",
        "reset_max_memory_allocated",
        "reset_accumulated_memory_stats",
    ):
        answers[name] = _saying(None)
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    torch._C._cuda_getDeviceCount = lambda: 1
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        torch._C._cuda_getCurrentRawStream = _saying(0)  # torch's compiler looks for it
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: _CUDNN_VERSION
    torch.backends.cudnn.is_acceptable = lambda tensor: getattr(tensor, "is_cuda", False)
    torch.backends.cudnn.rnn.get_cudnn_mode = _RNN_MODES.__getitem__
    torch._use_cudnn_rnn_flatten_weight = lambda: True
    _name_devices()


def _saying(answer: Any) -> Any:
    """A function of its own for each name: torch's compiler tells functions apart by identity."""
    return lambda *_args, **_kwargs: answer


def _name_devices() -> None:
    """Groups of tensors are on cuda:0 to whoever asks."""
    plain = torch._C._group_tensors_by_device_and_dtype

    def group(*args: Any, **kwargs: Any) -> Any:
        found = plain(*args, **kwargs)
        named = {}
        for (device, dtype), value in found.items():
            shown = CUDA if device is not None and device.type == "xla" else device
            named[(shown, dtype)] = value
        return named

    torch._C._group_tensors_by_device_and_dtype = group


class _Event:
    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        pass

    def record(self, *_args: Any) -> None:
        """Nothing runs."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, *_args: Any) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Everything has ended."""
        return True

    def elapsed_time(self, _other: Any) -> float:
        """Milliseconds that stand in for a measurement."""
        return 1.0


class _Stream(_Event):
    cuda_stream = 0

    def wait_stream(self, _other: Any) -> None:
        """Nothing to wait for."""

    def wait_event(self, _other: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or _Event()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_ending: Any) -> None:
        return None


def _unreached(*_args: Any, **_kwargs: Any) -> Any:
    raise AssertionError("a fake operation is answered before it comes to its kernel")


# Choices between kernels, as the C++ half makes them where CUDA is built in.


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
    few = source.dim() >= 3 and source.shape[0] <= _CUDNN_BATCH_LIMIT
    if cudnn_enabled and training and given and both and few and not halves and eps >= 1e-5:
        return torch.cudnn_batch_norm(
            source.contiguous(memory_format=_suggested(source)),
            weight,
            bias,
            mean,
            variance,
            training,
            momentum,
            eps,
        )[0]
    return torch.native_batch_norm(source, weight, bias, mean, variance, training, momentum, eps)[0]


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


def _lstm(
    source: Any,
    states: Any,
    weights: Any,
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    return run_recurrent(
        2, source, states[0], states[1], weights, has_biases, layers, dropout, train,
        bidirectional, batch_first,
    )  # fmt: skip


def _recurrent(mode: int) -> Any:
    def run(
        source: Any,
        state: Any,
        weights: Any,
        has_biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        return run_recurrent(
            mode, source, state, None, weights, has_biases, layers, dropout, train,
            bidirectional, batch_first,
        )[:2]  # fmt: skip

    return run


def _attention(capability: tuple[int, int]) -> Any:
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
    query: Any, key: Any, value: Any, mask: Any, capability: tuple[int, int], grouped: bool
) -> str:
    """The kernel that CUDA takes: cudnn, flash, efficient or math."""
    if query.dim() != 4 or not (query.dtype == key.dtype == value.dtype):
        return "math"
    if mask is not None and mask.requires_grad:
        return "math"  # no fused kernel gives a learned bias its gradient
    width, wide = query.shape[-1], value.shape[-1]
    half = query.dtype in _HALVES
    backends = torch.backends.cuda
    if (
        half
        and capability[0] in (9, 10)
        and backends.cudnn_sdp_enabled()
        and width % 8 == 0
        and wide % 8 == 0
        and max(width, wide) <= 128
        and query.shape[2] > 1
    ):
        return "cudnn"
    if (
        half
        and capability >= (8, 0)
        and backends.flash_sdp_enabled()
        and mask is None
        and width == key.shape[-1] == wide <= 256
    ):
        return "flash"
    alignment = 8 if half else (4 if capability >= (8, 0) else 1)
    if (
        backends.mem_efficient_sdp_enabled()
        and (half or query.dtype is torch.float32)
        and not grouped
        and width % alignment == 0
        and wide % alignment == 0
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
