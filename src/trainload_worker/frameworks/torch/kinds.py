"""A torch module for each kind of layer; knows no graph.

A module's own parameters are named as the graph names them, and stand in it, not in children.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Tuple

import torch
from torch import nn
from torch.nn import functional

Attributes = Mapping[str, Any]
Shapes = Tuple[Tuple[int, ...], ...]


class Add(nn.Module):  # type: ignore[misc]  # torch is not typed here
    """The sum of its inputs."""

    def forward(self, first: Any, *others: Any) -> Any:
        """Adds from left to right."""
        total = first
        for other in others:
            total = total + other
        return total


class Concat(nn.Module):  # type: ignore[misc]
    """Its inputs one after another in the first dimension after the batch."""

    def forward(self, *values: Any) -> Any:
        """The joined tensor."""
        return torch.cat(values, dim=1)


def _lacks_half_recurrence() -> bool:
    """Whether autocast asks for bf16 on a processor without AVX-512, as in most laptops."""
    asked = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.bfloat16
    return asked and not torch.ops.mkldnn._is_mkldnn_bf16_supported()


class Lstm(nn.LSTM):  # type: ignore[misc]
    """LSTM layers with one trained bias; gives the last layer's output at each step."""

    def __init__(self, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__(width, hidden, layers, dropout=dropout, batch_first=True)
        for layer in range(layers):
            # torch's second bias is the same term again: together they would learn twice as fast.
            second = getattr(self, f"bias_hh_l{layer}")
            nn.init.zeros_(second)
            second.requires_grad_(False)

    def forward(self, values: Any) -> Any:
        """Starts from a state of zeros."""
        if values.device.type == "cpu" and _lacks_half_recurrence():
            # oneDNN would be asked for an LSTM in bf16 that it does not have, and raise.
            enabled = torch._C._get_mkldnn_enabled()
            torch._C._set_mkldnn_enabled(False)
            try:
                return super().forward(values)[0]
            finally:
                torch._C._set_mkldnn_enabled(enabled)
        return super().forward(values)[0]


class SelfAttention(nn.Module):  # type: ignore[misc]
    """Multi-head scaled dot-product attention of a sequence to itself."""

    def __init__(self, width: int, heads: int, dropout: float, causal: bool) -> None:
        super().__init__()
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_weight = nn.Parameter(torch.empty(width, width))
        self.out_bias = nn.Parameter(torch.zeros(width))
        nn.init.xavier_uniform_(self.in_weight)
        nn.init.xavier_uniform_(self.out_weight)
        self._heads, self._dropout, self._causal = heads, dropout, causal

    def forward(self, values: Any) -> Any:
        """Attends in all heads at once and projects the joined heads."""
        batch, time, width = values.shape
        projected = functional.linear(values, self.in_weight, self.in_bias)
        split = projected.view(batch, time, 3, self._heads, width // self._heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            query,
            key,
            value,
            dropout_p=self._dropout if self.training else 0.0,
            is_causal=self._causal,
        )
        joined = attended.transpose(1, 2).reshape(batch, time, width)
        return functional.linear(joined, self.out_weight, self.out_bias)


class PositionEmbedding(nn.Module):  # type: ignore[misc]
    """Adds a trained vector to each step."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, values: Any) -> Any:
        """The sum."""
        return values + self.weight


class MeanOverTime(nn.Module):  # type: ignore[misc]
    """The mean of all steps."""

    def forward(self, values: Any) -> Any:
        """One vector an example."""
        return values.mean(dim=1)


class LastStep(nn.Module):  # type: ignore[misc]
    """The last step alone."""

    def forward(self, values: Any) -> Any:
        """One vector an example."""
        return values[:, -1]


def _build_linear(attributes: Attributes, shapes: Shapes) -> Any:
    return nn.Linear(shapes[0][-1], attributes["units"], bias=attributes.get("bias", True))


def _build_conv(attributes: Attributes, shapes: Shapes) -> Any:
    return nn.Conv2d(
        shapes[0][0],
        attributes["channels"],
        attributes["kernel"],
        stride=attributes["stride"],
        padding=attributes["padding"],
        dilation=attributes["dilation"],
        groups=attributes["groups"],
        bias=attributes["bias"],
    )


def _build_max_pool(attributes: Attributes, _shapes: Shapes) -> Any:
    return nn.MaxPool2d(
        attributes["kernel"],
        stride=attributes["stride"],
        padding=attributes["padding"],
        ceil_mode=attributes["ceil"],
    )


def _build_avg_pool(attributes: Attributes, _shapes: Shapes) -> Any:
    return nn.AvgPool2d(
        attributes["kernel"],
        stride=attributes["stride"],
        padding=attributes["padding"],
        ceil_mode=attributes["ceil"],
        count_include_pad=attributes["count_padding"],
    )


def _build_batch_norm(attributes: Attributes, shapes: Shapes) -> Any:
    norm = nn.BatchNorm1d if len(shapes[0]) == 1 else nn.BatchNorm2d
    # The graph means torch's momentum: the share of the new value.
    return norm(shapes[0][0], eps=attributes["eps"], momentum=attributes["momentum"])


def _build_lstm(attributes: Attributes, shapes: Shapes) -> Any:
    return Lstm(shapes[0][-1], attributes["hidden"], attributes["layers"], attributes["dropout"])


def _build_attention(attributes: Attributes, shapes: Shapes) -> Any:
    return SelfAttention(
        shapes[0][-1], attributes["heads"], attributes["dropout"], attributes["causal"]
    )


def _build_embedding(attributes: Attributes, _shapes: Shapes) -> Any:
    return nn.Embedding(attributes["vocabulary"], attributes["width"])


BUILDERS: Mapping[str, Callable[[Attributes, Shapes], Any]] = {
    "linear": _build_linear,
    "linear_over_time": _build_linear,
    "conv2d": _build_conv,
    "max_pool2d": _build_max_pool,
    "avg_pool2d": _build_avg_pool,
    "adaptive_avg_pool2d": lambda attributes, _shapes: nn.AdaptiveAvgPool2d(attributes["size"]),
    "batch_norm": _build_batch_norm,
    "layer_norm": lambda attributes, shapes: nn.LayerNorm(shapes[0][-1], eps=attributes["eps"]),
    "add": lambda _attributes, _shapes: Add(),
    "concat": lambda _attributes, _shapes: Concat(),
    "relu": lambda _attributes, _shapes: nn.ReLU(),
    "leaky_relu": lambda attributes, _shapes: nn.LeakyReLU(attributes.get("negative_slope", 0.01)),
    "tanh": lambda _attributes, _shapes: nn.Tanh(),
    "sigmoid": lambda _attributes, _shapes: nn.Sigmoid(),
    "silu": lambda _attributes, _shapes: nn.SiLU(),
    "gelu": lambda _attributes, _shapes: nn.GELU(),
    "softmax": lambda _attributes, _shapes: nn.Softmax(dim=-1),
    "dropout": lambda attributes, _shapes: nn.Dropout(attributes["rate"]),
    "flatten": lambda _attributes, _shapes: nn.Flatten(),
    "embedding": _build_embedding,
    "position_embedding": lambda _attributes, shapes: PositionEmbedding(shapes[0]),
    "lstm": _build_lstm,
    "self_attention": _build_attention,
    "mean_over_time": lambda _attributes, _shapes: MeanOverTime(),
    "last_step": lambda _attributes, _shapes: LastStep(),
}
