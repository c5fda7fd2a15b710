"""A small CNN with one layer made slower on purpose; timed by nobody but who watches it.

    python bench/scripts/planted_case.py --plant body.conv1:repeat --amount 0.6 --steps 120

`repeat` does the layer's own forward again, without gradients, on `amount` batches (0.6: once, on
six tenths); `sleep` stands still in its forward for `amount` seconds; `spin` counts in Python for
as long; `synchronise` waits for the device, then as `sleep`; `backward` repeats the layer's forward
work in its backward pass. `--calibrate FILE` measures instead what a step and each layer take.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

BATCH, SIDE = 32, 24


def build(width: int) -> nn.Sequential:
    """Stem, body and head with names that say what they are."""
    return nn.Sequential(
        _named(
            conv=nn.Conv2d(3, width, 3, padding=1), norm=nn.BatchNorm2d(width), act=nn.GELU()
        ).as_part("stem"),
        _named(
            conv1=nn.Conv2d(width, width, 3, padding=1),
            act=nn.Tanh(),
            conv2=nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            norm=nn.BatchNorm2d(2 * width),
            pool=nn.AvgPool2d(2),
        ).as_part("body"),
        _named(
            flatten=nn.Flatten(),
            drop=nn.Dropout(0.1),
            fc1=nn.Linear(2 * width * (SIDE // 4) ** 2, 256),
            act=nn.SiLU(),
            fc2=nn.Linear(256, 10),
        ).as_part("head"),
    )


class _Part(nn.Sequential):
    title = ""

    def as_part(self, title: str) -> "_Part":
        self.title = title
        return self


def _named(**layers: nn.Module) -> _Part:
    part = _Part()
    for name, layer in layers.items():
        part.add_module(name, layer)
    return part


class Model(nn.Module):
    """The parts under their titles."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for part in build(width):
            self.add_module(part.title, part)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.stem(rows)))


class _Again(torch.autograd.Function):
    """Does some work in the backward pass and hands the gradient on."""

    @staticmethod
    def forward(context, value, work):
        context.work = work
        return value.view_as(value)

    @staticmethod
    def backward(context, gradient):
        context.work()
        return gradient, None


def repeated(plain, rows: torch.Tensor, amount: float) -> None:
    """The layer's work on `amount` batches, its result thrown away."""
    with torch.no_grad():
        for _ in range(int(amount)):
            plain(rows)
        rest = round((amount % 1) * len(rows))
        if rest >= 2:
            plain(rows[:rest])


def plant(model: Model, where: str, how: str, amount: float) -> None:
    """Make one layer slower."""
    layer = model.get_submodule(where)
    plain = layer.forward

    def spin() -> None:
        until = time.perf_counter() + amount
        while time.perf_counter() < until:
            pass

    def slower(rows: torch.Tensor) -> torch.Tensor:
        if how == "backward":
            return _Again.apply(plain(rows), lambda: repeated(plain, rows.detach(), amount))
        if how == "repeat":
            repeated(plain, rows, amount)
        elif how == "spin":
            spin()
        else:
            if how == "synchronise" and rows.is_cuda:
                torch.cuda.synchronize()
            time.sleep(amount)
        return plain(rows)

    layer.forward = slower


def calibrate(model: Model, step, rows: torch.Tensor) -> dict[str, float]:
    """Seconds of an undisturbed step, and of each layer's forward without gradients."""
    inputs: dict[str, torch.Tensor] = {}
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, given, name=name: inputs.__setitem__(name, given[0].detach())
        )
        for name, layer in model.named_modules()
        if not list(layer.children())
    ]
    model(rows)
    for hook in hooks:
        hook.remove()
    found = {"step": _timed(step)}
    for name, given in inputs.items():
        layer = model.get_submodule(name)
        with torch.no_grad():
            found[name] = _timed(lambda layer=layer, given=given: layer(given))
    return found


def _timed(work, times: int = 30) -> float:
    """Seconds of one piece of work; on a device of several in a row, as in a step."""
    row = 10 if torch.cuda.is_available() else 1
    taken = []
    for _ in range(times):
        _wait()
        begin = time.perf_counter()
        for _ in range(row):
            work()
        _wait()
        taken.append((time.perf_counter() - begin) / row)
    return sorted(taken)[times // 4]  # others may use the machine meanwhile


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plant", default="none")
    parser.add_argument("--amount", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--calibrate", type=Path)
    words = parser.parse_args()
    torch.manual_seed(0)
    model = Model(words.width).to(words.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = torch.randn(BATCH, 3, SIDE, SIDE, device=words.device)
    labels = torch.randint(0, 10, (BATCH,), device=words.device)
    loss_of = nn.CrossEntropyLoss()
    if words.plant != "none":
        where, _, how = words.plant.partition(":")
        plant(model, where, how, words.amount)

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model(rows), labels).backward()
        optimizer.step()

    if words.calibrate is not None:
        for _ in range(10):
            step()
        words.calibrate.write_text(json.dumps(calibrate(model, step, rows)))
        return
    for _ in range(words.steps):
        step()


if __name__ == "__main__":
    main()
