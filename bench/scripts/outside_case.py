"""A plain torch training that times its own steps; knows nothing of trainload.

    python bench/scripts/outside_case.py CASE SECONDS RESULT.json [STEPS [MINE THEIRS]]
    python bench/scripts/outside_case.py CASE turns GO DONE

Trains for about that long after a warm-up and writes the end of every step by its own clock, and
the CPU time of the process. The device is waited for at the start and at the end alone. Given two
files it makes its own before it trains and waits for the other: two processes begin together.
In turns it reads from the pipe GO how many steps to train, and writes to DONE how long they took.
"""

import json
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
WARM = 10
"""Steps before any is timed."""


class Recurrent(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding, self.decoder = nn.Embedding(words, width), nn.Linear(width, words)
        self.recurrent = nn.LSTM(width, width, 2, dropout=0.2)

    def forward(self, tokens):
        return self.decoder(self.recurrent(self.embedding(tokens))[0])


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        batch, length, width = x.shape
        parts = (
            self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        )
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, words, length, width, heads, depth):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        inner = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(x + self.norm2(self.conv2(inner)))


def perceptron():
    layers = [part for _ in range(6) for part in (nn.Linear(512, 512), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def of_tokens(model, batch, length, words):
    tokens = torch.randint(0, words, (batch, length + 1), device=DEVICE)

    def loss():
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    return loss


def of_examples(model, shape, classes, half=False):
    examples = torch.randn(shape, device=DEVICE)
    labels = torch.randint(0, classes, shape[:1], device=DEVICE)

    def loss():
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=half):
            return functional.cross_entropy(model(examples), labels)

    return loss


def make(case):
    """Model, loss function and optimizer of a case."""
    if case == "lstm":
        model = Recurrent(10_000, 200).to(DEVICE)
        return model, of_tokens(model, 35, 20, 10_000), torch.optim.SGD(model.parameters(), lr=0.1)
    if case in ("gpt2", "gpt_compiled"):
        shape = (50_257, 512, 768, 12, 12) if case == "gpt2" else (65, 256, 384, 6, 6)
        model = Gpt(*shape).to(DEVICE)
        called = torch.compile(model) if case == "gpt_compiled" else model
        batch = 8 if case == "gpt2" else 32
        rule = torch.optim.AdamW(model.parameters(), lr=1e-4)
        return model, of_tokens(called, batch, shape[1], shape[0]), rule
    if case == "resnet50":
        import torchvision

        model = torchvision.models.resnet50().to(DEVICE)
        loss = of_examples(model, (64, 3, 224, 224), 1000, half=True)
    elif case == "cnn":
        head = (nn.Conv2d(3, 16, 3, padding=1), Residual(16), nn.MaxPool2d(4), Residual(16))
        model = nn.Sequential(*head, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        loss = of_examples(model, (32, 3, 32, 32), 10)
    elif case == "lstm_small":
        model = Recurrent(1000, 64)
        return model, of_tokens(model, 16, 20, 1000), torch.optim.SGD(model.parameters(), lr=0.1)
    elif case == "gpt_small":
        model = Gpt(65, 64, 64, 4, 2)
        loss = of_tokens(model, 8, 64, 65)
        return model, loss, torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        model = perceptron().to(DEVICE)
        loss = of_examples(model, (256 if case == "mlp256" else 64, 512), 10)
    return model, loss, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def take_turns(step, settle):
    """Trains as often as it is told to; a turn ends when the device has done all of it."""
    with (
        open(sys.argv[3], encoding="utf-8") as go,
        open(sys.argv[4], "w", encoding="utf-8") as done,
    ):
        print("ready", file=done, flush=True)
        for asked in iter(go.readline, "end\n"):
            cpu_s, began = time.process_time(), time.perf_counter()
            for _ in range(int(asked)):
                step()
            settle()
            loop_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
            print(json.dumps({"loop_s": loop_s, "cpu_s": cpu_s}), file=done, flush=True)


def main():
    case = sys.argv[1]
    torch.manual_seed(0)
    _, loss, rule = make(case)

    def step():
        rule.zero_grad(set_to_none=True)
        loss().backward()
        rule.step()

    def settle():
        if CUDA:
            torch.cuda.synchronize()

    if sys.argv[2] == "turns":
        for _ in range(WARM):
            step()
        settle()
        take_turns(step, settle)
        return
    seconds, result = float(sys.argv[2]), sys.argv[3]
    if len(sys.argv) > 6:
        with open(sys.argv[5], "w", encoding="utf-8"):
            pass
        while not os.path.exists(sys.argv[6]):
            time.sleep(0.001)
    for _ in range(5):
        step()
    settle()
    started = time.perf_counter()
    for _ in range(5):
        step()
    settle()
    # As many steps in every process of a case: the first one decides, the others are told.
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    count = count or max(50, round(5 * seconds / (time.perf_counter() - started)))
    ends, cpu_s, began = [], time.process_time(), time.perf_counter()
    for _ in range(count):
        step()
        ends.append(time.perf_counter() - began)
    settle()
    loop_s = time.perf_counter() - began
    with open(result, "w", encoding="utf-8") as file:
        cpu_s = time.process_time() - cpu_s
        json.dump({"steps": count, "loop_s": loop_s, "cpu_s": cpu_s, "ends_s": ends}, file)


if __name__ == "__main__":
    main()
