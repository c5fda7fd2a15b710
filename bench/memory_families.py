"""Families whose memory was once estimated badly, as training steps; none was used in any fit.

3-D convolutions, attention with a bias (under autocast too), VGG's wide first layers and small
recurrent nets. The same kind of build functions as in memory_cases.py; to be measured and judged:

    PYTHONPATH=src python3 bench/memory_truth.py --cases memory_families --parts cases --out FOLDER
    .venv/bin/python bench/memory_scorecard.py --cases memory_families --folder FOLDER --work WORK
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from memory_cases import (
    Build,
    Case,
    Loss,
    classify,
    find_library,
    find_transformers,
    read_table,
    vision,
)

CLIP = (3, 16, 112, 112)


def _video(name: str, shape: tuple[int, ...] = CLIP) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = getattr(find_library().video, name)(weights=None)
        return classify(model, torch.randn(batch, *shape), 400)

    return build


r3d_18, mc3_18, r2plus1d_18 = _video("r3d_18"), _video("mc3_18"), _video("r2plus1d_18")
s3d = _video("s3d", (3, 16, 224, 224))


class _Volumes(nn.Module):
    """An encoder and a decoder for volumes, with one connection across."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.outer, self.inner = self._twice(1, width), self._twice(width, 2 * width)
        self.pool = nn.MaxPool3d(2)
        self.up = nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.last, self.head = self._twice(2 * width, width), nn.Conv3d(width, 4, 1)

    @staticmethod
    def _twice(entering: int, leaving: int) -> nn.Sequential:
        parts: list[nn.Module] = []
        for channels in (entering, leaving):
            parts += [nn.Conv3d(channels, leaving, 3, padding=1, bias=False)]
            parts += [nn.InstanceNorm3d(leaving, affine=True), nn.LeakyReLU(inplace=True)]
        return nn.Sequential(*parts)

    def forward(self, volume: Any) -> Any:
        across = self.outer(volume)
        deep = self.up(self.inner(self.pool(across)))
        return self.head(self.last(torch.cat((across, deep), 1)))


def unet3d(batch: int) -> tuple[Any, Loss]:
    """Segmentation of 64³ voxels into four classes."""
    model = _Volumes()
    volumes, targets = torch.randn(batch, 1, 64, 64, 64), torch.randint(0, 4, (batch, 64, 64, 64))

    def loss() -> Any:
        return functional.cross_entropy(model(volumes), targets)

    return model, loss


class _Biased(nn.Module):
    """Transformer layers whose attention has a bias for each head and distance."""

    def __init__(self, width: int, heads: int, depth: int, length: int, learned: bool) -> None:
        super().__init__()
        self.heads = heads
        self.entry, self.head = nn.Embedding(8000, width), nn.Linear(width, 8000)
        layer = ("norm1", "norm2", "qkv", "out", "up", "down")
        made = [
            (
                nn.LayerNorm(width),
                nn.LayerNorm(width),
                nn.Linear(width, 3 * width),
                nn.Linear(width, width),
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, width),
            )
            for _ in range(depth)
        ]
        self.layers = nn.ModuleList(
            nn.ModuleDict(dict(zip(layer, one, strict=True))) for one in made
        )
        distance = (torch.arange(length)[:, None] - torch.arange(length)).abs()
        if learned:
            self.table = nn.Parameter(torch.zeros(2 * length, heads))
            self.register_buffer("places", distance)
        else:
            slopes = 2.0 ** -torch.arange(1, heads + 1)
            self.register_buffer("fixed", -slopes[:, None, None] * distance)

    def bias(self) -> Any:
        """By head, to and from."""
        if hasattr(self, "table"):
            return self.table[self.places].permute(2, 0, 1).contiguous()
        return self.fixed

    def forward(self, tokens: Any) -> Any:
        x, bias = self.entry(tokens), self.bias()
        batch, length, width = x.shape
        for layer in self.layers:
            parts = layer["qkv"](layer["norm1"](x)).view(batch, length, 3, self.heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=bias.to(query.dtype)[None]
            )
            x = x + layer["out"](mixed.transpose(1, 2).reshape(batch, length, width))
            x = x + layer["down"](functional.gelu(layer["up"](layer["norm2"](x))))
        return self.head(x)


def _biased(learned: bool) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = _Biased(width=512, heads=8, depth=6, length=256, learned=learned)
        tokens = torch.randint(0, 8000, (batch, 257))

        def loss() -> Any:
            scores = model(tokens[:, :-1])
            return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

        return model, loss

    return build


bias_learned, bias_fixed = _biased(True), _biased(False)


def beit(batch: int) -> tuple[Any, Loss]:
    """BEiT-B/16: a bias for each pair of patches, learned in every layer."""
    library = find_transformers()
    config = library.BeitConfig(use_relative_position_bias=True, num_labels=1000)
    return classify(
        library.BeitForImageClassification(config), torch.randn(batch, 3, 224, 224), 1000
    )


def mpnet(batch: int) -> tuple[Any, Loss]:
    """MPNet base: one learned bias for all layers."""
    library = find_transformers()
    model = library.MPNetForMaskedLM(library.MPNetConfig())
    tokens, labels = (torch.randint(2, 30000, (batch, 128)) for _ in range(2))

    def loss() -> Any:
        return model(input_ids=tokens, labels=labels).loss

    return model, loss


def multihead_mask(batch: int) -> tuple[Any, Loss]:
    """torch's own encoder with a mask of floats."""
    layer = nn.TransformerEncoderLayer(384, 6, 1536, batch_first=True, dropout=0.1)
    model = nn.Sequential()
    model.add_module("body", nn.TransformerEncoder(layer, 6, enable_nested_tensor=False))
    model.add_module("head", nn.Linear(384, 100))
    features, targets = torch.randn(batch, 196, 384), torch.randint(0, 100, (batch,))
    mask = torch.randn(196, 196)

    def loss() -> Any:
        hidden = model.body(features, mask=mask)
        return functional.cross_entropy(model.head(hidden.mean(1)), targets)

    return model, loss


vgg11, vgg13_bn, vgg16_bn, vgg19 = map(vision, ("vgg11", "vgg13_bn", "vgg16_bn", "vgg19"))
swin_v2_t = vision("swin_v2_t")


class _Recurrent(nn.Module):
    def __init__(self, words: int, width: int, classes: int, **options: Any) -> None:
        super().__init__()
        self.entry = nn.Embedding(words, width)
        self.recurrent = nn.LSTM(width, width, batch_first=True, **options)
        self.head = nn.Linear(width * (1 + options.get("bidirectional", False)), classes)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.recurrent(self.entry(tokens))[0])


def _recurrent(words: int, width: int, classes: int, length: int, **options: Any) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = _Recurrent(words, width, classes, **options)
        tokens = torch.randint(0, words, (batch, length))
        targets = torch.randint(0, classes, (batch, length))

        def loss() -> Any:
            return functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

        return model, loss

    return build


lstm_64 = _recurrent(1000, 64, 1000, 32)
lstm_128 = _recurrent(5000, 128, 5000, 35, num_layers=2, dropout=0.2)
lstm_both_ways = _recurrent(20000, 100, 17, 50, bidirectional=True)
lstm_characters = _recurrent(96, 256, 96, 100, num_layers=2)

CASES = read_table("""
r3d_18 8 adam float32; r3d_18 16 sgd bf16; mc3_18 8 momentum float32; r2plus1d_18 4 adamw float32
r2plus1d_18 8 adam bf16; s3d 4 adam float32; unet3d 2 adam float32; unet3d 4 adamw bf16
bias_learned 16 adamw bf16; bias_learned 8 adam float32; bias_fixed 16 adamw bf16
bias_fixed 8 sgd float32; beit 32 adamw bf16; mpnet 32 adamw bf16; mpnet 16 adam float32
multihead_mask 64 adamw bf16; swin_v2_t 32 adamw bf16
vgg11 32 adam float32; vgg13_bn 32 adam bf16; vgg16_bn 64 momentum bf16; vgg19 16 momentum float32
lstm_64 16 sgd float32; lstm_64 64 adam bf16; lstm_128 32 adam float32
lstm_both_ways 32 adam bf16; lstm_both_ways 64 sgd float32; lstm_characters 64 adam float32
""")


def find_case(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.name == name)


def build_case(case: Case) -> tuple[Any, Loss]:
    """The module and the loss of a case, on the CPU, in training mode."""
    module, loss = globals()[case.model](case.batch)
    return module.train(), loss
