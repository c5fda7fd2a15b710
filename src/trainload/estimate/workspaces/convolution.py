"""The workspace that cuDNN takes for a convolution: copies of its tensors, and partial sums.

Computes from sizes alone. Tensor-core kernels want the channels innermost and in units of 16 bytes:
where a tensor is not laid out so, a copy of it is part of the workspace. When a product is cut
along its inner dimension, one tile of partial sums per multiprocessor, or one weight gradient per
cut, comes on top. Which kernel cuDNN's heuristics pick, and thus which tensors are copied, follows
no published rule: small decision trees over the sizes, fitted to measured convolutions, say it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

Part = Literal["forward", "input", "weight"]
"""The product: of the output, of the input's gradient, or of the weight's gradient."""
PARTS: tuple[Part, ...] = ("forward", "input", "weight")

VECTOR_BYTES = 16
"""Channels are padded to it: 4 of float32 or TF32, 8 of half precision."""
_WINOGRAD_TILE, _WINOGRAD_STEP = 36, 4


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """Sizes of one convolution; a transposed one is given as the convolution it reverses."""

    batch: int
    channels: int
    filters: int
    groups: int
    kernel: tuple[int, ...]
    stride: int
    padding: int
    dilation: int
    size: tuple[int, ...]
    """Of the input, without batch and channels."""
    out_size: tuple[int, ...]
    item_bytes: int
    tf32: bool
    channels_last: bool

    @property
    def mode(self) -> str:
        """By which tree: the arithmetic, the layout, and whether channels are in groups."""
        kind = "half" if self.item_bytes == 2 else "tf32" if self.tf32 else "float32"
        layout = "last" if self.channels_last else "first"
        groups = "full" if self.groups == 1 else "grouped"
        groups = "depthwise" if self.groups == self.channels > 1 else groups
        return f"{kind} {layout} {groups}"

    @property
    def taps(self) -> int:
        """Weights per pair of channels."""
        return prod(self.kernel)


def _padded(channels: int, item_bytes: int) -> int:
    per = VECTOR_BYTES // item_bytes
    return -(-channels // per) * per


def copies_bytes(conv: Convolution) -> dict[str, int]:
    """A copy of each tensor with the channels innermost, by the tensor's letter."""
    item = conv.item_bytes
    wide, deep = _padded(conv.channels, item), _padded(conv.filters, item)
    inner = wide
    if conv.groups > 1:
        # A group is made square: as many channels in as out.
        inner = max(conv.channels, conv.filters) // conv.groups
        wide = deep = conv.groups * inner
    return {
        "x": conv.batch * wide * prod(conv.size) * item,
        "y": conv.batch * deep * prod(conv.out_size) * item,
        "w": deep * inner * conv.taps * item,
    }


def weight_sums_bytes(conv: Convolution) -> int:
    """One weight gradient in float32."""
    return conv.filters * (conv.channels // conv.groups) * conv.taps * 4


def _winograd_bytes(conv: Convolution) -> int:
    """Transformed input, output and weight of F(4×4, 3×3), each tile as 6×6 values of float32."""
    tiles = conv.batch * prod(-(-side // _WINOGRAD_STEP) for side in conv.out_size)
    both = tiles * (conv.channels + conv.filters) + conv.channels * conv.filters
    return both * _WINOGRAD_TILE * 4


def _fourier_bytes(conv: Convolution) -> int:
    """Input and output as spectra of float32, twice: transformed and transposed; and the output."""
    side = 1
    while side < max(conv.size) + max(conv.kernel) - 1:
        side *= 2
    spectrum = side * (side // 2 + 1) * 8
    spectra = 2 * conv.batch * (conv.channels + conv.filters) * spectrum
    return spectra + conv.batch * conv.filters * prod(conv.out_size) * conv.item_bytes


_STRIDE_ONE_ONLY = ("winograd", "fourier")


def may_transform(conv: Convolution, base: str) -> bool:
    """Whether a kernel that works on transformed tiles could do it."""
    plain = conv.stride == conv.dilation == conv.groups == 1 and len(conv.size) == 2
    if base == "winograd":
        return plain and conv.kernel == (3, 3)
    return plain and min(conv.kernel) > 1


def base_bytes(conv: Convolution, base: str) -> int:
    """Bytes of a named formula: letters of copied tensors, or a word of BASES."""
    if base in _STRIDE_ONE_ONLY and not may_transform(conv, base):
        base = "xyw"
    if base == "fourier":
        return _fourier_bytes(conv)
    if base == "expanded":
        pixels = prod(conv.size) * conv.channels + prod(conv.out_size) * conv.filters
        return conv.batch * pixels * VECTOR_BYTES
    if base == "images":
        return conv.batch * weight_sums_bytes(conv)
    if base == "winograd":
        return _winograd_bytes(conv)
    copies = copies_bytes(conv)
    return sum(copies[letter] for letter in base)


BASES: Mapping[Part, tuple[str, ...]] = {
    "forward": ("", "xw", "xy", "yw", "xyw", "x"),
    "input": ("", "xw", "xy", "yw", "xyw", "y"),
    # `images`: a weight gradient per image. `expanded`: every channel of a depthwise convolution as
    # a 16-byte vector of its own, input and output.
    "weight": ("", "xy", "xyw", "x", "y", "images", "winograd", "fourier", "expanded"),
}

FEATURES = (
    "batch", "channels", "filters", "taps", "short_side", "stride", "padding", "dilation",
    "pixels", "out_pixels", "width", "inner_channels", "inner_filters", "rows", "depth",
    "x_bytes", "y_bytes", "w_bytes", "x_over_y", "flop", "dims", "odd_channels", "odd_filters",
)  # fmt: skip


def features(conv: Convolution) -> tuple[float, ...]:
    """What the trees may ask about, in the order of FEATURES."""
    pixels, out_pixels = prod(conv.size), prod(conv.out_size)
    item = conv.item_bytes
    x_bytes = conv.batch * conv.channels * pixels * item
    y_bytes = conv.batch * conv.filters * out_pixels * item
    depth = conv.channels // conv.groups * conv.taps
    per = VECTOR_BYTES // item
    return (
        conv.batch, conv.channels, conv.filters, conv.taps, min(conv.kernel), conv.stride,
        conv.padding, conv.dilation, pixels, out_pixels, conv.size[-1],
        conv.channels // conv.groups, conv.filters // conv.groups, conv.batch * out_pixels, depth,
        x_bytes, y_bytes, conv.filters * depth * item, x_bytes / y_bytes,
        2.0 * conv.batch * out_pixels * conv.filters * depth, len(conv.size),
        conv.channels % per, conv.filters % per,
    )  # fmt: skip


def _thins_volumes(conv: Convolution) -> bool:
    """Whether it only leaves places out, over three sides: a shortcut of a residual network."""
    plain = conv.groups == 1 and not conv.channels_last
    return plain and len(conv.size) == 3 and conv.taps == 1 and conv.stride > 1


def workspace_bytes(conv: Convolution, part: Part, trees: Mapping[str, Any]) -> int:
    """The workspace of one product; 0 where the kernel works in place.

    `trees` has, by part and mode, nested rows: [feature, threshold, at most, above] or a leaf
    [base, bytes, cuts]: the named formula, plus bytes, plus so many weight gradients.
    """
    if _thins_volumes(conv):
        # Where two sides say that it works in place; found in an R3D-18 of both precisions.
        in_place = part == "forward" and conv.tf32 and conv.item_bytes == 4
        return base_bytes(conv, "xw" if in_place else "xyw")
    node: Sequence[Any] | None = trees[part].get(conv.mode)
    if node is None:
        return 0
    asked = features(conv)
    while len(node) == 4:
        node = node[2] if asked[node[0]] <= node[1] else node[3]
    base, extra_bytes, cuts = node
    total = base_bytes(conv, base) + extra_bytes + int(cuts * weight_sums_bytes(conv))
    return max(0, int(total))
