"""The memory that CUDA operations take beside their results: workspaces, copies, accumulators.

From an operation of an op trace to the order in which it takes and gives back memory; standard
library only, runs nothing and touches no device. The figures in `sm90.json` were
measured on one device kind; others are estimated by the same rules.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from trainload.estimate.workspaces import attention, kernels, recurrent
from trainload.estimate.workspaces.convolution import Convolution, Part, workspace_bytes
from trainload.estimate.workspaces.reduction import staging
from trainload.estimate.workspaces.script import (
    ITEM_BYTES,
    Operation,
    Script,
    Step,
    Temporaries,
    Tensor,
    is_channels_last,
    is_dense_last,
    size_bytes,
)

__all__ = ["Step", "Temporaries", "load_figures", "temporaries"]

MEASURED_KIND = "sm90"
NOTHING = Temporaries()


@cache
def load_figures() -> Mapping[str, Any]:
    """The measured figures and trees, with their source."""
    text = resources.files("trainload.estimate.workspaces").joinpath("sm90.json").read_text()
    found: Mapping[str, Any] = json.loads(text)
    return found


def temporaries(
    op: Operation, device_kind: str = MEASURED_KIND, *, tf32: bool = True
) -> Temporaries:
    """What an operation takes beside its results; nothing where no rule is known.

    `device_kind` is the compute capability as `sm90`; `tf32` is torch's setting for convolutions,
    on by default.
    """
    name = op.name.removeprefix("aten.").partition(".")[0]
    if name in _PRODUCTS:
        # The result is made before the library is asked for its handle.
        steps = tuple(Step(kind="result", number=number) for number in range(len(op.outputs)))
        kept = _library_bytes(name, op.phase, device_kind)
        return Temporaries(steps=steps, kept=kept, kept_last=True)
    if name in _RECURRENT:
        return _recurrent(op, device_kind)
    if name in _CONVOLUTIONS:
        return Temporaries(steps=_CONVOLUTIONS[name](op, tf32))
    rule = _RULES.get(name)
    if rule is None:
        return NOTHING
    return Temporaries(steps=rule(op))


_RECURRENT = frozenset({"_cudnn_rnn", "_cudnn_rnn_backward"})
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "dot", "linear", "matmul"})


def _library_bytes(name: str, phase: str, device_kind: str) -> Mapping[str, int]:
    """cuBLAS's workspace, once for each host thread: autograd runs backward on its own."""
    figures = load_figures()["libraries"]
    thread = "backward" if phase == "backward" else "forward"
    sizes: Mapping[str, int] = figures["cublas_workspace_bytes"]
    kept = {f"cublas {thread}": sizes.get(device_kind, sizes["other"])}
    if name in ("addmm", "linear"):
        kept[f"cublaslt {thread}"] = figures["cublaslt_workspace_bytes"]
    return kept


def _one(value: Any) -> int:
    return max(value) if isinstance(value, (list, tuple)) and value else int(value or 1)


def _describe(op: Operation, tf32: bool) -> tuple[Convolution, bool, list[Any]]:
    """The convolution of an operation, whether it is transposed, and its attributes."""
    backward = "backward" in op.name
    attributes = list(op.attributes)
    if backward:
        result, given, weight = op.inputs[:3]
        attributes = attributes[1:]  # the bias's size
    else:
        given, weight, result = op.inputs[0], op.inputs[1], op.outputs[0]
        if attributes and attributes[0] is None:  # no bias
            attributes = attributes[1:]
    stride, padding, dilation, transposed, _, groups = attributes[:6]
    small, large = (result, given) if transposed else (given, result)
    conv = Convolution(
        batch=given.shape[0],
        channels=small.shape[1],
        filters=large.shape[1],
        groups=groups,
        kernel=tuple(weight.shape[2:]),
        stride=_one(stride),
        padding=max(padding, default=0),
        dilation=_one(dilation),
        size=tuple(small.shape[2:]),
        out_size=tuple(large.shape[2:]),
        item_bytes=ITEM_BYTES.get(given.dtype, 4),
        tf32=tf32,
        channels_last=is_channels_last(given) or is_channels_last(weight),
    )
    return conv, bool(transposed), attributes


def _workspace(conv: Convolution, part: Part, transposed: bool) -> int:
    if conv.groups > 1 and conv.groups == conv.channels and not conv.channels_last:
        return 0  # one channel a group: torch's own kernels, or cuDNN's in place
    if transposed and part != "weight":
        part = "input" if part == "forward" else "forward"
    return workspace_bytes(conv, part, load_figures()["convolutions"])


def _copied(tensor: Tensor, channels_last: bool) -> bool:
    """Whether cuDNN's layout asks for a copy before it is called."""
    if channels_last and len(tensor.shape) > 2:
        return not is_dense_last(tensor) and not _is_point(tensor)
    return tensor.strides is not None


def _is_point(tensor: Tensor) -> bool:
    """Both layouts are the same: no sides, or one channel."""
    return all(side == 1 for side in tensor.shape[2:]) or tensor.shape[1] == 1


def _convolution(op: Operation, tf32: bool) -> tuple[Step, ...]:
    conv, transposed, _ = _describe(op, tf32)
    given, weight = op.inputs[:2]
    script = Script()
    if _copied(given, conv.channels_last):
        script.take(size_bytes(given))
    script.results(0)
    if _copied(weight, conv.channels_last):
        script.take(size_bytes(weight))
    script.brief(_workspace(conv, "forward", transposed))
    return script.finish()


def _convolution_backward(op: Operation, tf32: bool) -> tuple[Step, ...]:
    conv, transposed, attributes = _describe(op, tf32)
    gradient, given, weight = op.inputs[:3]
    wanted = attributes[6] if len(attributes) > 6 else [True] * len(op.outputs)
    script = Script()
    strided = _copied(gradient, conv.channels_last)
    # A gradient in the other layout is copied once, and so is that of a transposed convolution,
    # until both calls are done; a slice of the right layout is copied at each call.
    whole = strided and (transposed or conv.channels_last or is_channels_last(gradient))
    copy = script.take(size_bytes(gradient)) if whole else None
    if _copied(given, conv.channels_last):
        script.take(size_bytes(given))
    sliced = size_bytes(gradient) if strided and not whole else 0
    number = 0
    if wanted[0]:
        script.results(number)
        number += 1
        held = [script.take(sliced)]
        if _copied(weight, conv.channels_last):
            held.append(script.take(size_bytes(weight)))
        script.brief(_workspace(conv, "input", transposed))
        script.give(*held)
    if wanted[1]:
        held = [script.take(sliced)]
        script.results(number)
        number += 1
        script.brief(_workspace(conv, "weight", transposed))
        script.give(*held)
    if copy is not None and transposed:
        script.give(copy)
    if wanted[2]:
        script.results(number)
        sides = [0, *range(2, len(gradient.shape))]
        found = staging(gradient.shape, gradient.strides, sides)
        script.brief(found.partial_bytes, found.counter_bytes)
    return script.finish()


def _recurrent(op: Operation, device_kind: str) -> Temporaries:
    rule = recurrent.backward if "backward" in op.name else recurrent.forward
    return Temporaries(steps=rule(op, device_kind))


_CONVOLUTIONS: Mapping[str, Callable[[Operation, bool], tuple[Step, ...]]] = {
    "convolution": _convolution,
    "convolution_overrideable": _convolution,
    "_convolution": _convolution,
    "convolution_backward": _convolution_backward,
}

_RULES: Mapping[str, Callable[[Operation], tuple[Step, ...]]] = {
    "sum": kernels.reduction,
    "mean": kernels.reduction,
    "linalg_vector_norm": kernels.reduction,
    "native_dropout": kernels.dropout,
    "native_layer_norm": kernels.layer_norm,
    "native_layer_norm_backward": kernels.layer_norm_backward,
    "native_group_norm": kernels.group_norm,
    "native_group_norm_backward": kernels.group_norm_backward,
    "cudnn_batch_norm": kernels.batch_norm_cudnn,
    "cudnn_batch_norm_backward": kernels.batch_norm_cudnn_backward,
    "native_batch_norm": kernels.batch_norm,
    "native_batch_norm_backward": kernels.batch_norm_backward,
    "_softmax_backward_data": kernels.softmax_backward,
    "_safe_softmax": kernels.safe_softmax,
    "roll": kernels.roll,
    "max_pool2d_with_indices_backward": kernels.contiguous_first,
    "embedding": kernels.embedding,
    "embedding_dense_backward": kernels.embedding_backward,
    "index_put": kernels.index_put,
    "_index_put_impl_": kernels.index_put,
    "_scaled_dot_product_cudnn_attention": attention.cudnn_forward,
    "_scaled_dot_product_cudnn_attention_backward": attention.cudnn_backward,
    "_scaled_dot_product_flash_attention_backward": attention.flash_backward,
    "_scaled_dot_product_efficient_attention_backward": attention.efficient_backward,
}
