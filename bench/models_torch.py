"""A few training models in plain torch, for what no library model exercises; measures nothing.

Transposed convolutions and group norm (a U-Net), fused attention under a causal mask with tied
weights (a small GPT, with and without activation checkpointing), a GRU from cuDNN, convolutions
over time.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Gpt(nn.Module):
    """A decoder of pre-norm blocks; the embedding is also the output matrix."""

    def __init__(self, *, width: int, depth: int, heads: int, checkpointed: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50304, width)
        self.positions = nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 50304, bias=False)
        self.head.weight = self.tokens.weight
        self.checkpointed = checkpointed

    def forward(self, tokens: Any) -> Any:
        """Scores of the next token at each place."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        value = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            value = (
                checkpoint(block, value, use_reentrant=False) if self.checkpointed else block(value)
            )
        return self.head(self.norm(value))


class GptBlock(nn.Module):
    """Attention and a feed-forward part, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, value: Any) -> Any:
        """The block's value, of the same shape."""
        rows, steps, width = value.shape
        parts = self.qkv(self.norm1(value)).split(width, dim=2)
        heads = [part.view(rows, steps, self.heads, -1).transpose(1, 2) for part in parts]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        value = value + self.drop(self.out(mixed.transpose(1, 2).reshape(rows, steps, width)))
        return value + self.drop(self.down(functional.gelu(self.up(self.norm2(value)))))


class UNet(nn.Module):
    """Down by strided convolutions, up by transposed ones, with joins; group norm and SiLU."""

    def __init__(self, *, width: int = 64, depth: int = 4, classes: int = 21) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(depth)]
        self.enter = _conv_norm(3, width)
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), _conv_norm(b, b))
            for a, b in itertools.pairwise(sizes)
        )
        pairs = list(zip(sizes[:0:-1], sizes[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.join = nn.ModuleList(_conv_norm(2 * b, b) for _, b in pairs)
        self.leave = nn.Conv2d(width, classes, 1)

    def forward(self, images: Any) -> Any:
        """Scores for each class at each pixel."""
        value = self.enter(images)
        kept = []
        for down in self.down:
            kept.append(value)
            value = down(value)
        for up, join in zip(self.up, self.join, strict=True):
            value = join(torch.cat([up(value), kept.pop()], dim=1))
        return self.leave(value)


class GruTagger(nn.Module):
    """Two layers of a bidirectional GRU and a score for each step."""

    def __init__(self, *, vocabulary: int = 20000, width: int = 256, tags: int = 50) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, width, 2, batch_first=True, dropout=0.2, bidirectional=True)
        self.head = nn.Linear(2 * width, tags)

    def forward(self, tokens: Any) -> Any:
        """Scores for each tag at each step."""
        return self.head(self.gru(self.embed(tokens))[0])


class TimeConvolutions(nn.Module):
    """Dilated one-dimensional convolutions with weight-heavy kernels, as for sound."""

    def __init__(self, *, channels: int = 256, depth: int = 8) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, channels, 10, stride=5)
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, channels, 3, padding=2 ** (level % 4), dilation=2 ** (level % 4))
            for level in range(depth)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, 35)

    def forward(self, sound: Any) -> Any:
        """Scores for each class."""
        value = self.enter(sound)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            value = value + functional.relu(norm(layer(value)))
        return self.head(value.mean(dim=2))


def _conv_norm(before: int, after: int) -> Any:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())
