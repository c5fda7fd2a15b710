"""Models that the layer bench trains: the usual ones on a GPU, plain ones written here on a CPU.

Each case builds a module, an optimizer and a function that runs one step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class Case:
    """One training; `step` runs forward, loss, backward and update once and returns the loss."""

    model: Any
    optimizer: Any
    step: Callable[[], Any]


def _case(model: Any, device: str, loss: Callable[[Any], Any], adam: bool = False) -> Case:
    model = model.to(device).train()
    make = torch.optim.AdamW if adam else torch.optim.SGD
    options = {} if adam else {"momentum": 0.9}
    optimizer = make(model.parameters(), lr=1e-4, **options)

    def step() -> Any:
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        optimizer.step()
        return value

    return Case(model=model, optimizer=optimizer, step=step)


def _classify(model: Any, device: str, shape: tuple[int, ...], classes: int, **more: Any) -> Case:
    inputs = torch.randn(*shape, device=device)
    targets = torch.randint(0, classes, (shape[0],), device=device)

    def loss(module: Any) -> Any:
        output = module(inputs)
        return functional.cross_entropy(getattr(output, "logits", output), targets)

    return _case(model, device, loss, **more)


def mlp(device: str) -> Case:
    """The load analysis's network: three hidden layers of 512 units, batch 512."""
    sizes = [75, 512, 512, 512]
    hidden = [
        part
        for before, after in itertools.pairwise(sizes)
        for part in (nn.Linear(before, after), nn.ReLU())
    ]
    return _classify(nn.Sequential(*hidden, nn.Linear(512, 10)), device, (512, 75), 10, adam=True)


class LanguageModel(nn.Module):
    """A two-layer LSTM over tokens."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: Any) -> Any:
        """Scores of the next token."""
        return self.head(self.lstm(self.embed(tokens))[0])


def _lstm(device: str, tokens: int, width: int, batch: int, length: int) -> Case:
    data = torch.randint(0, tokens, (batch, length), device=device)

    def loss(module: Any) -> Any:
        return functional.cross_entropy(module(data).flatten(0, 1), data.flatten())

    return _case(LanguageModel(tokens, width), device, loss)


def _vision(name: str, batch: int, size: int = 224) -> Callable[[str], Case]:
    def build(device: str) -> Case:
        from torchvision import models

        extra = {"aux_logits": True, "init_weights": False} if name == "inception_v3" else {}
        return _classify(getattr(models, name)(**extra), device, (batch, 3, size, size), 1000)

    return build


def _bert(device: str) -> Case:
    import transformers

    model = transformers.BertForSequenceClassification(transformers.BertConfig())
    tokens = torch.randint(0, 30000, (8, 128), device=device)
    targets = torch.randint(0, 2, (8,), device=device)
    return _case(
        model, device, lambda module: module(input_ids=tokens, labels=targets).loss, adam=True
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.act = nn.ReLU(inplace=True)

    def forward(self, inputs: Any) -> Any:
        hidden = self.act(self.norm1(self.conv1(inputs)))
        return self.act(self.norm2(self.conv2(hidden)) + inputs)


def residual_cnn(device: str) -> Case:
    """Six residual blocks of 32 channels on 32×32 images, with operations in place."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        *(_Residual(32) for _ in range(6)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return _classify(model, device, (32, 3, 32, 32), 10)


def plain_alexnet(device: str) -> Case:
    """AlexNet in its one-column form, batch 16, 224×224."""
    pool = lambda: nn.MaxPool2d(3, 2)  # noqa: E731
    relu = lambda: nn.ReLU(inplace=True)  # noqa: E731
    features = nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), relu(), pool(),
        nn.Conv2d(64, 192, 5, padding=2), relu(), pool(),
        nn.Conv2d(192, 384, 3, padding=1), relu(),
        nn.Conv2d(384, 256, 3, padding=1), relu(),
        nn.Conv2d(256, 256, 3, padding=1), relu(), pool(),
    )  # fmt: skip
    head = nn.Sequential(
        nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), relu(),
        nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Linear(4096, 10),
    )  # fmt: skip
    model = nn.Sequential()
    model.add_module("features", features)
    model.add_module("head", head)
    return _classify(model, device, (16, 3, 224, 224), 10)


def transformer_block(device: str) -> Case:
    """One encoder block of width 256 with four heads on 8 sequences of 64."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True)
            self.head = nn.Linear(256, 10)

        def forward(self, inputs: Any) -> Any:
            return self.head(self.block(inputs).mean(dim=1))

    return _classify(Model(), device, (8, 64, 256), 10, adam=True)


GPU_CASES: dict[str, Callable[[str], Case]] = {
    "mlp-512x3-b512": mlp,
    "alexnet-b64": _vision("alexnet", 64),
    "alexnet-b128": _vision("alexnet", 128),
    "vgg11-b12": _vision("vgg11", 12),
    "resnet50-b32": _vision("resnet50", 32),
    "densenet121-b32": _vision("densenet121", 32),
    "inception_v3-b32": _vision("inception_v3", 32, 299),
    "squeezenet-b64": _vision("squeezenet1_0", 64),
    "vit_b_16-b16": _vision("vit_b_16", 16),
    "bert-base-8x128": _bert,
    "lstm-2x512": lambda device: _lstm(device, 10_000, 512, 32, 64),
}
CPU_CASES: dict[str, Callable[[str], Case]] = {
    "mlp-512x3-b512": mlp,
    "alexnet-b16": plain_alexnet,
    "residual-cnn-b32": residual_cnn,
    "transformer-block": transformer_block,
    "lstm-2x128": lambda device: _lstm(device, 1_000, 128, 16, 32),
}
