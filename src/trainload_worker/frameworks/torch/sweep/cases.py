"""The operations that a sweep may time, with their sizes, FLOPs and bytes; imports no framework.

Sizes are those of models that people train, from launch-bound to large, odd ones among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Callable, Iterator, Mapping, Sequence

from trainload_worker.frameworks.torch.sweep import counting

Sizes = Mapping[str, int]

_MATRICES = (
    # n, k of a linear layer: transformers, heads of classifiers, multilayer perceptrons, odd ones
    *((768, 768), (3072, 768), (768, 3072), (1024, 1024), (4096, 1024), (4096, 4096)),
    *((1000, 2048), (1000, 512), (4096, 9216), (10, 84), (64, 64), (256, 256), (512, 100)),
    *((30522, 768), (50257, 768), (333, 123), (129, 255), (2048, 512), (650, 650), (11008, 4096)),
)
_TURNED = ((4096, 1024), (1000, 2048), (4096, 9216), (10, 84), (50257, 768), (11008, 4096))
_ROWS = (1, 8, 32, 77, 128, 512, 1000, 2048, 4096, 16384)
_CONVOLUTIONS = (
    # in, out, height, kernel, stride
    *((3, 64, 224, 7, 2), (3, 64, 224, 3, 1), (3, 96, 224, 11, 4), (3, 32, 224, 3, 2)),
    *((64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1)),
    *((256, 512, 56, 1, 2), (128, 128, 28, 3, 1), (128, 128, 56, 3, 2), (512, 128, 28, 1, 1)),
    *((256, 256, 14, 3, 1), (1024, 256, 14, 1, 1), (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1)),
    *((64, 128, 112, 3, 1), (128, 256, 56, 3, 1), (512, 512, 28, 3, 1), (512, 512, 14, 3, 1)),
    *((64, 192, 27, 5, 1), (1, 32, 28, 3, 1), (32, 64, 28, 3, 1), (16, 16, 32, 3, 1)),
    *((32, 64, 16, 3, 2), (48, 96, 17, 3, 1), (80, 192, 73, 3, 1), (24, 144, 56, 1, 1)),
    *((96, 24, 56, 1, 1), (320, 1280, 7, 1, 1), (3, 768, 224, 16, 16), (6, 16, 14, 5, 1)),
)
_GROUPED = (
    # channels in and out, height, kernel, stride, groups
    *((32, 112, 3, 1, 32), (96, 112, 3, 2, 96), (144, 56, 3, 1, 144), (144, 56, 5, 2, 144)),
    *((240, 28, 5, 1, 240), (480, 14, 3, 1, 480), (672, 14, 5, 1, 672), (1152, 7, 5, 1, 1152)),
    *((96, 56, 7, 1, 96), (384, 14, 7, 1, 384), (128, 56, 3, 1, 32), (256, 28, 3, 1, 32)),
    *((512, 14, 3, 1, 32), (58, 28, 3, 1, 58)),
)
_BATCHES = (1, 4, 16, 32, 64, 128, 256)
_WIDTHS = (10, 64, 197, 512, 768, 1024, 4096)


@dataclass(frozen=True)
class Case:
    """One operation at one size and number type."""

    family: str
    """What shares its time with others: the operation, grouped convolutions apart."""
    operation: str
    dtype: str
    sizes: Sizes
    flops: float
    bytes: float


FAMILIES: Mapping[str, float] = {
    "linear": 3.0,
    "conv": 3.0,
    "conv_grad_input": 2.5,
    "conv_grad_weight": 2.5,
    "elementwise": 1.5,
    "in-place elementwise": 1.0,
    "random elementwise": 0.4,
    "norm": 1.5,
    "norm_backward": 1.5,
    "attention": 1.5,
    "attention_backward": 1.5,
    "bmm": 1.0,
    "grouped conv": 1.0,
    "grouped conv_grad_input": 1.0,
    "grouped conv_grad_weight": 1.0,
    "last conv": 1.0,
    "last conv_grad_input": 0.8,
    "last conv_grad_weight": 0.8,
    "last grouped conv": 0.7,
    "last grouped conv_grad_input": 0.7,
    "last grouped conv_grad_weight": 0.7,
    "last norm": 0.5,
    "last norm_backward": 0.5,
    "softmax": 0.7,
    "softmax_backward": 0.7,
    "pool": 0.5,
    "pool_backward": 0.5,
    "reduction": 0.7,
    "gather": 0.7,
    "scatter": 0.7,
    "lstm": 1.0,
    "lstm_backward": 1.0,
    "gru": 0.7,
    "gru_backward": 0.7,
    "optimizer": 1.0,
    "copy": 1.0,
}
"""Every family and its share of the time, against one."""

_TF32 = ("linear", "bmm", "conv", "lstm", "gru")
"""Operations, with their backwards, that TF32 changes."""
_ONE_TYPE = ("optimizer", "copy", "in-place elementwise", "random elementwise")
"""Families measured in float32 alone: a copy counts bytes, and the weights of a training are
float32."""
OF_PROCESSORS = ("in-place elementwise", "random elementwise")
"""Families of their own on processors, where a new result's pages are first given by the system and
random numbers are drawn one by one."""
LAST = "last "
"""Before families whose images have their channels innermost: other kernels serve them, and on GPUs
so many models are trained like that that they are measured."""


def list_cases(dtypes: Sequence[str]) -> list[Case]:
    """Every case in these number types."""
    found = []
    for family in FAMILIES:
        operation = family.rpartition(" ")[2]
        for dtype in dtypes:
            if dtype == "tf32" and not operation.startswith(_TF32):
                continue
            if dtype != "float32" and family in _ONE_TYPE:
                continue
            listed = _SIZES[family.replace("_backward", "").removeprefix(LAST)]()
            if family.startswith(LAST):
                listed = _channels_last(listed)
            for sizes in {tuple(one.items()): one for one in listed}.values():
                flops, moved = counting.count(operation, sizes, dtype)
                found.append(Case(family, operation, dtype, sizes, flops, moved))
    return found


def _channels_last(listed: Iterator[Sizes]) -> Iterator[Sizes]:
    """The images among them, with their channels innermost."""
    for sizes in listed:
        if "height" in sizes:
            yield {**sizes, "channels_last": 1}


def _linear() -> Iterator[Sizes]:
    for m, (n, k) in product(_ROWS, _MATRICES):
        yield {"m": m, "n": n, "k": k}
    # The gradient of the input turns the weights round, that of the weights adds over the rows.
    for m, (n, k) in product((8, 128, 1000, 4096, 16384), _TURNED):
        yield {"m": m, "n": k, "k": n}
    for rows, (n, k) in product((32, 512, 4096, 16384), _MATRICES):
        yield {"m": n, "n": k, "k": rows}


def _bmm() -> Iterator[Sizes]:
    shapes = ((128, 128, 64), (512, 512, 64), (512, 64, 512), (197, 197, 64), (1024, 1024, 64))
    for batch, (m, n, k) in product((1, 8, 96, 384, 768), (*shapes, (33, 21, 50), (1024, 64, 128))):
        yield {"batch": batch, "m": m, "n": n, "k": k}


def _conv() -> Iterator[Sizes]:
    for batch, (before, after, height, kernel, stride) in product(_BATCHES, _CONVOLUTIONS):
        yield _convolution(batch, before, after, height, kernel, stride, 1)


def _grouped() -> Iterator[Sizes]:
    for batch, (channels, height, kernel, stride, groups) in product((1, 8, 64, 256), _GROUPED):
        yield _convolution(batch, channels, channels, height, kernel, stride, groups)
    for batch in (1, 32, 256):
        yield _convolution(batch, 96, 256, 27, 5, 1, 2)


def _convolution(
    batch: int, before: int, after: int, height: int, kernel: int, stride: int, groups: int
) -> Sizes:
    return {
        "batch": batch,
        "in_channels": before,
        "out_channels": after,
        "height": height,
        "width": height,
        "kernel": kernel,
        "stride": stride,
        "groups": groups,
    }


def _attention() -> Iterator[Sizes]:
    lengths = (64, 128, 197, 512, 1024, 2048)
    for batch, length, causal in product((1, 8, 32, 64), lengths, (0, 1)):
        heads, size = (16, 64) if length == 1024 else (32, 128) if length == 2048 else (12, 64)
        yield {
            "batch": batch,
            "heads": heads,
            "queries": length,
            "keys": length,
            "head_size": size,
            "causal": causal,
        }


def _norm() -> Iterator[Sizes]:
    for rows, width in product((32, 1024, 8192, 32768, 131072), (64, 300, 768, 1024, 4096)):
        yield {"rows": rows, "width": width}
    images = ((64, 112), (64, 56), (256, 56), (512, 28), (1024, 14), (2048, 7), (96, 113))
    for batch, (channels, height) in product((1, 8, 32, 64, 128, 256), images):
        yield {"batch": batch, "channels": channels, "height": height, "width": height}


def _rows() -> Iterator[Sizes]:
    for rows, width in product((1, 64, 1024, 8192, 98304), (*_WIDTHS, 50257)):
        yield {"rows": rows, "width": width}


def _pool() -> Iterator[Sizes]:
    images = ((64, 112, 3, 2), (64, 224, 2, 2), (192, 27, 3, 2), (512, 14, 2, 2), (32, 28, 2, 2))
    for batch, (channels, height, kernel, stride) in product((1, 16, 64, 256), images):
        yield {
            "batch": batch,
            "channels": channels,
            "height": height,
            "width": height,
            "kernel": kernel,
            "stride": stride,
        }


def _elementwise() -> Iterator[Sizes]:
    for power, operands in product(range(6, 30), (2, 3)):
        yield {"elements": 1 << power, "operands": operands}
    for power, operands in product((10, 100, 12345, 999_999, 33_333_333), (2, 3)):
        yield {"elements": power, "operands": operands}


def _in_place() -> Iterator[Sizes]:
    for power, operands in product(range(6, 28, 2), (2, 3)):
        yield {"elements": 1 << power, "operands": operands, "in_place": 1}


def _random() -> Iterator[Sizes]:
    for power in range(6, 26, 2):
        yield {"elements": 1 << power, "operands": 1, "random": 1}


def _gather() -> Iterator[Sizes]:
    for rows, width, table in product((32, 1024, 8192, 65536), (50, 300, 768, 1024), (1000, 50257)):
        yield {"rows": rows, "width": width, "table": table}


def _recurrent() -> Iterator[Sizes]:
    shapes = ((64, 128, 1), (300, 256, 1), (256, 256, 2), (512, 512, 1), (650, 650, 2))
    for batch, steps, (given, hidden, layers) in product(
        (1, 16, 32, 64, 128), (10, 35, 100), (*shapes, (1024, 1024, 1))
    ):
        yield {"batch": batch, "steps": steps, "input": given, "hidden": hidden, "layers": layers}


def _optimizer() -> Iterator[Sizes]:
    models = ((1_000, 4), (60_000, 10), (1_000_000, 20), (4_000_000, 160), (11_000_000, 60))
    for (elements, tensors), moments, fused in product(
        (*models, (25_000_000, 160), (60_000_000, 460), (124_000_000, 148), (355_000_000, 292)),
        (0, 1, 2),
        (0, 1),
    ):
        yield {"elements": elements, "tensors": tensors, "moments": moments, "fused": fused}


def _copy() -> Iterator[Sizes]:
    for power in range(8, 28, 2):
        yield {"elements": 1 << power, "from_host": 0, "pinned": 0}
        yield {"elements": 1 << power, "from_host": 1, "pinned": 0}
        yield {"elements": 1 << power, "from_host": 1, "pinned": 1}


_SIZES: Mapping[str, Callable[[], Iterator[Sizes]]] = {
    "linear": _linear,
    "bmm": _bmm,
    "conv": _conv,
    "conv_grad_input": _conv,
    "conv_grad_weight": _conv,
    "grouped conv": _grouped,
    "grouped conv_grad_input": _grouped,
    "grouped conv_grad_weight": _grouped,
    "attention": _attention,
    "norm": _norm,
    "softmax": _rows,
    "pool": _pool,
    "reduction": _rows,
    "elementwise": _elementwise,
    "in-place elementwise": _in_place,
    "random elementwise": _random,
    "gather": _gather,
    "scatter": _gather,
    "lstm": _recurrent,
    "gru": _recurrent,
    "optimizer": _optimizer,
    "copy": _copy,
}
