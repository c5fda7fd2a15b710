"""Shapes that operations give, for those where torch's own rule is slow or knows no CUDA.

Each rule takes an operation's arguments and gives the forms of its results, or None to leave it to
torch. Convolutions and batch norms are here because torch's rules for them load a second's worth
of modules.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import torch

from trainload_worker.frameworks.torch.fake_step.recurrent import reserve_bytes
from trainload_worker.frameworks.torch.fake_step.tensors import Form, form_of

Forms = Any


def _new(shape: Any, dtype: Any, strides: Any = None) -> Form:
    return form_of(shape, strides, dtype, 0, True)


def _like(tensor: Any, dtype: Any = None) -> Form:
    """A new tensor with that one's layout, contiguous where it has holes or repeats."""
    strides = tensor.stride()
    dense = _is_dense(tuple(tensor.shape), strides)
    return _new(tensor.shape, dtype or tensor.dtype, strides if dense else None)


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for stride, size in sorted(zip(strides, shape)):
        if size == 1:
            continue
        if stride != step:
            return False
        step *= size
    return True


def _channels_last(shape: Any) -> tuple[int, ...]:
    """Strides with the channels innermost."""
    channels, places = shape[1], list(shape[2:])
    strides, step = [0] * len(shape), channels
    strides[1] = 1
    for dimension in range(len(places) + 1, 1, -1):
        strides[dimension] = step
        step *= shape[dimension]
    strides[0] = step
    return tuple(strides)


def _is_channels_last(tensor: Any) -> bool:
    shape = tuple(tensor.shape)
    if len(shape) not in (4, 5) or shape[1] == 1 or tensor.is_contiguous():
        return False
    return bool(tensor.stride() == _channels_last(shape))


def _in_format(shape: Any, dtype: Any, last: bool) -> Form:
    return _new(shape, dtype, _channels_last(shape) if last and len(shape) in (4, 5) else None)


def _one_each(value: Any, count: int) -> list[int]:
    sizes = list(map(int, value))
    return sizes * count if len(sizes) == 1 else sizes


def convolution(
    source: Any,
    weight: Any,
    _bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Forms:
    """Output in the layout that cuDNN takes for its inputs."""
    count = weight.dim() - 2
    if source.dim() != weight.dim():
        return None
    stride, padding = _one_each(stride, count), _one_each(padding, count)
    dilation, extra = _one_each(dilation, count), _one_each(output_padding, count)
    places = []
    for i in range(count):
        size, kernel = source.shape[2 + i], weight.shape[2 + i]
        span = dilation[i] * (kernel - 1) + 1
        if transposed:
            places.append((size - 1) * stride[i] - 2 * padding[i] + span + extra[i])
        else:
            places.append((size + 2 * padding[i] - span) // stride[i] + 1)
    if any(size <= 0 for size in places):
        return None
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    last = _is_channels_last(source) or _is_channels_last(weight)
    return [_in_format((source.shape[0], channels, *places), source.dtype, last)]


def convolution_backward(
    _gradient: Any, source: Any, weight: Any, bias_sizes: Any, *rest: Any
) -> Forms:
    """Gradients of input, weight and bias, as far as they are asked for."""
    mask = rest[-1]
    last = _is_channels_last(source) or _is_channels_last(weight)
    forms = [
        _in_format(source.shape, source.dtype, last),
        _in_format(weight.shape, weight.dtype, last),
    ]
    forms.append(_new(bias_sizes or (weight.shape[0],), weight.dtype))
    return [form if wanted else None for form, wanted in zip(forms, mask)]


def _statistics_type(tensor: Any) -> Any:
    return torch.float32 if tensor.dtype in (torch.bfloat16, torch.float16) else tensor.dtype


def cudnn_batch_norm(source: Any, weight: Any, *rest: Any) -> Forms:
    """Output, mean, inverse deviation and the reserve, which cuDNN leaves empty without fusion."""
    channels, training = source.shape[1], rest[3]
    saved = (channels if training else 0,)
    kind = _statistics_type(weight)
    return [_like(source), _new(saved, kind), _new(saved, kind), _new((0,), torch.uint8)]


def cudnn_batch_norm_backward(source: Any, _gradient: Any, weight: Any, *_rest: Any) -> Forms:
    """Gradients of input, weight and bias."""
    return [_like(source), _like(weight), _like(weight)]


def native_batch_norm(source: Any, _weight: Any, *rest: Any) -> Forms:
    """Output, mean and inverse deviation."""
    saved = (source.shape[1] if rest[3] else 0,)
    kind = _statistics_type(source)
    return [_like(source), _new(saved, kind), _new(saved, kind)]


def native_batch_norm_backward(_gradient: Any, source: Any, weight: Any, *rest: Any) -> Forms:
    """Gradients of input, weight and bias, as far as they are asked for."""
    kind = _statistics_type(source) if weight is None else weight.dtype
    own = _new((source.shape[1],), kind)
    return [form if wanted else None for form, wanted in zip([_like(source), own, own], rest[-1])]


def native_layer_norm(source: Any, shape: Any, *_rest: Any) -> Forms:
    """Output, mean and inverse deviation of each row."""
    kind = _statistics_type(source) if source.is_cuda else source.dtype
    kept = (*source.shape[: source.dim() - len(shape)], *[1] * len(shape))
    return [_new(source.shape, source.dtype), _new(kept, kind), _new(kept, kind)]


def native_layer_norm_backward(
    _gradient: Any, source: Any, _shape: Any, _mean: Any, _deviation: Any, weight: Any, *rest: Any
) -> Forms:
    """Gradients of input, weight and bias, as far as they are asked for."""
    bias, mask = rest[0], rest[-1]
    forms = [
        _new(source.shape, source.dtype),
        None if weight is None else _new(weight.shape, weight.dtype),
        None if bias is None else _new(bias.shape, bias.dtype),
    ]
    return [form if wanted else None for form, wanted in zip(forms, mask)]


def fused_rms_norm(source: Any, shape: Any, *_rest: Any) -> Forms:
    """Output and inverse deviation of each row."""
    kept = (*source.shape[: source.dim() - len(shape)], *[1] * len(shape))
    return [_like(source), _new(kept, _statistics_type(source))]


def fused_rms_norm_backward(
    _gradient: Any, source: Any, _shape: Any, _deviation: Any, weight: Any, mask: Any
) -> Forms:
    """Gradients of input and weight, as far as they are asked for."""
    own = None if weight is None else _like(weight)
    return [_like(source) if mask[0] else None, own if mask[1] else None]


def native_dropout(source: Any, _rate: float, _train: Any) -> Forms:
    """Output and a byte a value."""
    return [_like(source), _like(source, torch.bool)]


def cudnn_rnn(
    source: Any,
    _weights: Any,
    _stride: int,
    weight_buffer: Any,
    hx: Any,
    cx: Any,
    mode: int,
    hidden: int,
    projection: int,
    layers: int,
    batch_first: bool,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_sizes: Any,
    _dropout_state: Any,
) -> Forms:
    """Output, both last states, the reserve, and a weight buffer where none was given."""
    directions, size = (2 if bidirectional else 1), (projection or hidden)
    steps = source.shape[0] if batch_sizes else source.shape[0] * source.shape[1]
    out, width = (*source.shape[:-1], size * directions), size * directions
    reserve = reserve_bytes(
        mode=mode,
        places=steps,
        hidden=hidden,
        layers=layers,
        directions=directions,
        item_bytes=source.dtype.itemsize,
        dropout=dropout,
    )
    turned = batch_first and not batch_sizes
    own_buffer = weight_buffer is None or not weight_buffer.numel()
    buffer = sum(w.numel() for w in _weights) if own_buffer else 0
    return [
        _new(out, source.dtype, (width, source.shape[0] * width, 1) if turned else None),
        _new(hx.shape, hx.dtype),
        _new(cx.shape if cx is not None else (0,), hx.dtype),
        _new((reserve if train else 0,), torch.uint8),
        _new((buffer,), source.dtype),
    ]


def mkldnn_rnn_layer(
    source: Any, _w1: Any, _w2: Any, _w3: Any, _w4: Any, hx: Any, cx: Any, *rest: Any
) -> Forms:
    """Output, both last states and oneDNN's workspace, by steps measured on torch 2.13."""
    hidden, train = rest[3], rest[-1]
    steps, batch, width = source.shape
    states = 6 * _leading(max(width, hidden)) + 5 * _leading(hidden)
    workspace = batch * (steps * _leading(4 * hidden) + (steps + 1) * states) * 4
    return [
        _new((steps, batch, hidden), source.dtype),
        _like(hx),
        _like(cx),
        _new((workspace if train else 0,), torch.uint8),
    ]


def _leading(size: int) -> int:
    """The row length that oneDNN takes for a matrix: whole cache lines, but no power of two."""
    rounded = -(-size // 16) * 16
    return rounded + 16 if rounded % 256 == 0 else rounded


def _first_like(source: Any, *_rest: Any, **_options: Any) -> Forms:
    return [_like(source)]


def _element_wise(*args: Any, **options: Any) -> Forms:
    """Operands of one type and layout; what is broadcast or promoted is left to torch."""
    first = args[0]
    if not isinstance(first, torch.Tensor) or options.get("dtype") is not None:
        return None
    for other in args[1:]:
        if isinstance(other, torch.Tensor):
            if other.dtype != first.dtype:
                return None
            if other.shape != first.shape or other.stride() != first.stride():
                return None
        elif isinstance(other, (float, complex)) and not first.dtype.is_floating_point:
            return None
    return [_like(first)]


def to_copy(source: Any, **options: Any) -> Forms:
    """The same in another type or place."""
    if options.get("memory_format") not in (None, torch.preserve_format):
        return None
    if options.get("layout") not in (None, torch.strided):
        return None
    return [_like(source, options.get("dtype"))]


def embedding_dense_backward(gradient: Any, _indices: Any, rows: int, *_rest: Any) -> Forms:
    """A whole table."""
    return [_new((rows, gradient.shape[-1]), gradient.dtype)]


def grouped_mm(
    left: Any, right: Any, offsets: Any = None, _bias: Any = None, dtype: Any = None
) -> Forms:
    """Products of groups of rows, as mixtures of experts have them; rows of whole 16 bytes.

    Torch's own rule takes bf16 alone, its kernel any type.
    """
    kind = dtype or left.dtype
    shape: tuple[int, ...] = (left.shape[-2], right.shape[-1])
    if left.dim() == right.dim():
        groups = left.shape[0] if left.dim() == 3 else offsets.shape[0]
        shape = (groups, *shape)
    aligned = 16 // kind.itemsize
    row = -(-shape[-1] // aligned) * aligned
    strides = (row, 1) if len(shape) == 2 else (shape[1] * row, row, 1)
    return [_new(shape, kind, strides)]


def ctc_loss(scores: Any, targets: Any, _steps: Any, lengths: Any, *_rest: Any) -> Forms:
    """The loss of each example and the logarithms of alpha (LossCTC.cu)."""
    if not isinstance(lengths, torch.Tensor):
        longest = max(lengths, default=0)
    else:
        longest = targets.shape[1] if targets.dim() == 2 else targets.shape[0]
    rows = scores.shape[1] if scores.dim() == 3 else 1
    kept = (rows, scores.shape[0], 2 * longest + 1)
    return [_new((rows,), scores.dtype), _new(kept, scores.dtype)]


def ctc_loss_backward(_gradient: Any, scores: Any, *_rest: Any) -> Forms:
    """Gradients of the scores."""
    return [_new(scores.shape, scores.dtype)]


def multi_margin_loss_backward(_gradient: Any, source: Any, *_rest: Any) -> Forms:
    """Gradients of the scores."""
    return [_new(source.shape, source.dtype)]


_SIMPLE = (
    *("relu", "gelu", "gelu_backward", "silu", "silu_backward", "tanh", "tanh_backward"),
    *("sigmoid", "sigmoid_backward", "threshold_backward", "add", "sub", "mul", "sqrt"),
)

_NAMED_AS_HERE: tuple[Any, ...] = (
    *(convolution, convolution_backward, cudnn_batch_norm, cudnn_batch_norm_backward),
    *(native_batch_norm, native_batch_norm_backward, native_layer_norm),
    *(native_layer_norm_backward, native_dropout, embedding_dense_backward, mkldnn_rnn_layer),
)

RULES: Mapping[str, Callable[..., Forms]] = {
    **{rule.__name__: rule for rule in _NAMED_AS_HERE},
    "_fused_rms_norm": fused_rms_norm,
    "_fused_rms_norm_backward": fused_rms_norm_backward,
    "native_dropout_backward": _first_like,
    "_cudnn_rnn": cudnn_rnn,
    "_grouped_mm": grouped_mm,
    "_ctc_loss": ctc_loss,
    "_ctc_loss_backward": ctc_loss_backward,
    "multi_margin_loss_backward": multi_margin_loss_backward,
    "_to_copy": to_copy,
    **dict.fromkeys(_SIMPLE, _element_wise),
}
