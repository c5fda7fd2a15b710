"""A GPU that is not there: torch.cuda answers as if it were; `kernels` says what would run on it.

Changes torch's own functions for the rest of the process, which traces and then ends.
"""

from __future__ import annotations

import contextlib
import importlib
from types import SimpleNamespace
from typing import Any

import torch

from trainload_worker.frameworks.torch.fake_step.capability import Capability
from trainload_worker.frameworks.torch.fake_step.kernels import choose_kernels
from trainload_worker.frameworks.torch.fake_step.legacy import take_legacy_kinds
from trainload_worker.frameworks.torch.fake_step.tensors import CUDA, FakeTensor, open_autograd

_NAME = "a GPU that is not there"
_MEMORY_BYTES = 80 << 30
_CUDNN_VERSION = 91900
_RNN_MODES = {"RNN_RELU": 0, "RNN_TANH": 1, "LSTM": 2, "GRU": 3}
"""Numbered as in cudnn.h."""

_DOING_NOTHING = (
    *("_lazy_init", "init", "set_device", "synchronize", "empty_cache", "ipc_collect"),
    *("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"),
    *("set_stream", "set_per_process_memory_fraction", "reset_peak_memory_stats"),
    *("reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats"),
)
_ZERO = (
    *("current_device", "_exchange_device", "_maybe_exchange_device", "utilization"),
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("memory_cached", "max_memory_cached"),
)
"""Functions of torch.cuda whose answer is 0: the only device, and memory that nobody counts."""


def stand_in(capability: Capability) -> None:
    """Makes torch run as on a GPU of that capability; FrameworkError where it cannot."""
    open_autograd()
    _answer_questions(capability)
    take_legacy_kinds()
    take_cpu()
    choose_kernels(capability)


def take_cpu() -> None:
    """Prepares torch for fake tensors on the CPU: optimizers and initialisers accept them."""
    _take_fake_optimizers()
    _draw_nothing()


def _draw_nothing() -> None:
    """Skips truncated normal draws for fake tensors: they repeat until all values are in range."""
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


def _answer_questions(capability: Capability) -> None:
    cuda = torch.cuda
    torch._C._set_only_lift_cpu_tensors(True)
    answers: dict[str, Any] = {
        **{name: _saying(None) for name in _DOING_NOTHING},
        **{name: _saying(0) for name in _ZERO},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        # Torch's autocast takes bf16 on every GPU; older ones emulate it.
        "is_bf16_supported": lambda including_emulation=True: (
            including_emulation or capability.at_least((8, 0))
        ),
        "device_count": lambda: 1,
        "get_device_name": _saying(_NAME),
        "get_device_capability": lambda *_args: capability.tell(),
        "get_device_properties": lambda *_args: _properties(capability),
        "is_current_stream_capturing": lambda: False,
        "get_arch_list": list,
        "mem_get_info": lambda *_args: (_MEMORY_BYTES, _MEMORY_BYTES),
        "memory_stats": lambda *_args: {},
        "memory_summary": lambda *_args, **_kwargs: "",
        "get_rng_state": lambda *_args: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)],
        "Event": _Event,
        "Stream": _Stream,
        "stream": lambda *_args: contextlib.nullcontext(),
        "device": lambda *_args: contextlib.nullcontext(),
        "current_stream": lambda *_args: _Stream(),
        "default_stream": lambda *_args: _Stream(),
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    torch._C._cuda_getDeviceCount = lambda: 1
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        torch._C._cuda_getCurrentRawStream = _saying(0)  # torch's compiler looks for it
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: _CUDNN_VERSION
    torch.backends.cudnn.is_acceptable = lambda tensor: getattr(tensor, "is_cuda", False)
    rnn: Any = importlib.import_module("torch.backends.cudnn.rnn")  # older torch waits with it
    rnn.get_cudnn_mode = _RNN_MODES.__getitem__
    torch._use_cudnn_rnn_flatten_weight = lambda: True
    _name_devices()


def _properties(capability: Capability) -> SimpleNamespace:
    major, minor = capability.tell()
    return SimpleNamespace(
        name=_NAME,
        major=major,
        minor=minor,
        total_memory=_MEMORY_BYTES,
        multi_processor_count=132,
        uuid=None,
    )


def _saying(answer: Any) -> Any:
    """A function of its own for each name: torch's compiler tells functions apart by identity."""
    return lambda *_args, **_kwargs: answer


def _name_devices() -> None:
    """Names cuda:0, not XLA, as the device of the groups that optimizers make of tensors."""
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
        """Does nothing: no kernel runs."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, *_args: Any) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """True: no kernel is ever running."""
        return True

    def elapsed_time(self, _other: Any) -> float:
        """A constant of 1 ms in place of a measurement."""
        return 1.0


class _Stream(_Event):
    cuda_stream = 0

    wait_stream = wait_event = _Event.wait

    def record_event(self, event: Any = None) -> Any:
        """The event given, or a new one; it counts as passed."""
        return event or _Event()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_ending: Any) -> None:
        return None
