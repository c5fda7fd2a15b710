"""One planted cause, or its remedy: a small training for so many seconds, timed by its own clock.

    python advice_case.py CASE planted|remedied SECONDS RESULT.json

Every case builds the same training in both forms but for the cause. It tells seconds a step, the
median (the mean where a cause comes now and then); where a remedy changes the batch, seconds for as
many examples as the planted form has in a step.
"""

import itertools
import json
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CASE, FORM, SECONDS, RESULT = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
PLANTED = FORM == "planted"
EVERY = 1 if PLANTED else 50
"""How often a thing is done that the remedy does seldom."""
DEVICE = "cuda" if CASE.startswith("gpu_") else "cpu"
WARM_UP = 10
BLOCK = 10 if DEVICE == "cuda" else 16 if CASE in ("slow_loader", "many_workers") else 1
"""Steps timed together: a device is waited for every ten, loader workers answer in bursts."""
COUNTED = 350 if CASE.startswith("recompil") else None
"""Steps in all, where the cause comes with so many of them; their mean is told."""


class Rows(Dataset):
    """Examples whose reading costs something."""

    def __init__(self, read=None, width=64, length=1_000_000):
        self.read, self.width, self.length = read, width, length

    def __len__(self):
        return self.length

    def __getitem__(self, at):
        if self.read is not None:
            self.read()
        return torch.full((self.width,), float(at % 7)), at % 10


def decode():
    """Some milliseconds of Python."""
    return sum(i * i % 7 for i in range(4_000))


def mlp(depth=8, width=64, classes=10):
    hidden = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, classes))


class Chain(nn.Module):
    """Many small operations in a row."""

    def __init__(self, width=64, length=80):
        super().__init__()
        self.head, self.length = nn.Linear(width, 10), length

    def forward(self, x):
        for _ in range(self.length):
            x = torch.tanh(x * 0.9 + 0.1)
        return self.head(x)


def batches(rows=32, width=64, dtype=torch.float32):
    """The same batch, for ever."""
    x = torch.randn(rows, width, dtype=dtype).to(DEVICE)
    y = torch.randint(0, 10, (rows,)).to(DEVICE)
    while True:
        yield x, y


def endless(loader):
    while True:
        yield from loader


def train(model, data, *, optimizer=None, per_step=1.0, before=None, after=None, prepare=None):
    """Steps until the time is over; writes seconds a step. `after` may do what a script does."""
    model = model.to(DEVICE)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-3)
    ends = []
    for x, y in data:
        logits = model(x if prepare is None else prepare(x))
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        if before is not None:
            before(model)
        optimizer.step()
        if after is not None:
            after(len(ends), model, y, loss, logits)
        synchronise_at_ends(len(ends))
        ends.append(time.perf_counter())
        if is_over(ends):
            break
    times = [b - a for a, b in pairwise(ends[WARM_UP:])]
    block = BLOCK if COUNTED is None else len(times)
    blocks = [fmean(times[at : at + block]) for at in range(0, len(times) - block + 1, block)]
    with Path(RESULT).open("w") as file:
        json.dump({"steps": len(times), "step_s": median(blocks) / per_step}, file)


def is_over(ends):
    """Whether the time is over; where the cause goes by steps, they are."""
    if COUNTED is not None:
        return len(ends) > COUNTED
    return len(ends) > 2 * WARM_UP and ends[-1] - ends[WARM_UP] >= SECONDS


def synchronise_at_ends(step):
    """Wait for the device every ten steps, so that the host does not run away."""
    if DEVICE == "cuda" and step % 10 == 0:
        torch.cuda.synchronize()


def slow_loader():
    def read():
        time.sleep(0.0005)

    workers = 0 if PLANTED else 2
    train(mlp(), endless(DataLoader(Rows(read), batch_size=16, num_workers=workers)))


def decoding():
    read = decode if PLANTED else None
    train(mlp(), endless(DataLoader(Rows(read), batch_size=8)))


def many_workers():
    workers = 8 if PLANTED else 0
    train(mlp(2), endless(DataLoader(Rows(width=64), batch_size=2, num_workers=workers)))


def tiny_batches():
    rows = 4 if PLANTED else 64
    train(mlp(20), batches(rows), per_step=rows / 4)


def small_operations():
    model = Chain()
    train(model if PLANTED else torch.compile(model), batches(16))


def python_between():
    def after(*_):
        if PLANTED:
            sorted(str(i) for i in range(25_000))

    train(mlp(), batches(), after=after)


def logging():
    path = Path(tempfile.mkdtemp(), "log.jsonl")

    def after(step, _model, _y, loss, _logits):
        if step % EVERY == 0:
            with path.open("a") as log:
                log.write(json.dumps({"step": step, "loss": float(loss)}) + "\n")
                log.flush()
                os.fsync(log.fileno())

    train(mlp(), batches(), after=after)


def saving():
    path = Path(tempfile.mkdtemp(), "model.pt")

    def after(step, model, *_):
        if step % EVERY == 0:
            torch.save(model.state_dict(), path)

    train(mlp(), batches(), after=after)


def unfused_adam():
    model = mlp(20, 96)
    fused = {} if PLANTED else {"fused": True}
    train(model, batches(32, 96), optimizer=torch.optim.Adam(model.parameters(), **fused))


def unfused_adamw():
    model = mlp(3, 512)
    fused = {"foreach": False} if PLANTED else {"fused": True}
    train(model, batches(16, 512), optimizer=torch.optim.AdamW(model.parameters(), **fused))


def copies():
    def prepare(x):
        for _ in range(3 if PLANTED else 0):
            x = x.clone()
        return x[:, :64]

    train(mlp(4), batches(128, 4096), prepare=prepare)


def layout():
    class Images(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
            self.head = nn.Linear(8, 10)

        def forward(self, x):
            x = self.first(x)
            if PLANTED:
                for _ in range(2):
                    x = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).contiguous()
            return self.head(self.second(x).mean((2, 3)))

    x, y = torch.randn(8, 8, 48, 48), torch.randint(0, 10, (8,))
    train(Images(), iter(lambda: (x, y), None))


def clip_loop():
    def clip(model):
        for p in model.parameters():
            if p.grad.dim() < 2:
                continue
            if PLANTED:
                for row in p.grad:
                    row.mul_(torch.clamp(1.0 / (row.norm() + 1e-6), max=1.0))
            else:
                p.grad.mul_(torch.clamp(1.0 / (p.grad.norm(dim=1, keepdim=True) + 1e-6), max=1.0))

    train(mlp(4, 96), batches(64, 96), before=clip)


def metrics():
    def after(step, _model, y, _loss, logits):
        if step % EVERY == 0:
            ranks = logits.detach().sort(dim=1, descending=True).indices
            (ranks == y[:, None]).float().cumsum(1).mean(0)

    train(mlp(4, 128, classes=2000), batches(64, 128), after=after)


def evaluation():
    x_val = torch.randn(128, 256)

    def after(step, model, *_):
        if step % EVERY == 0:
            with torch.no_grad():
                model(x_val)

    train(mlp(4, 256), batches(64, 256), after=after)


def teacher():
    frozen = mlp(6, 256, classes=256).requires_grad_(False)
    kept = {}

    def prepare(x):
        if PLANTED or not kept:
            kept["x"] = frozen(x)
        return kept["x"]

    train(mlp(2, 256), batches(64, 256), prepare=prepare)


def double():
    dtype = torch.float64 if PLANTED else torch.float32
    train(mlp(3, 512).to(dtype), batches(64, 512, dtype))


def contention():
    train(mlp(4, 512), batches(128, 512))


class Recurrent(nn.Module):
    """Whole rows of numbers as sequences, the last output as what they are."""

    def __init__(self, width, hidden, layers):
        super().__init__()
        self.inner = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.head(self.inner(x)[0][:, -1])


def sequences(rows, length, width):
    while True:
        yield torch.randn(rows, length, width), torch.randint(0, 10, (rows,))


def allocator():
    # Planted and remedied alike: the remedy stands in the environment.
    train(Recurrent(28, 128, 2), sequences(32, 100, 28))


def allocator_images():
    blocks = [
        layer for _ in range(4) for layer in (nn.Conv2d(24, 24, 1), nn.GELU(), nn.BatchNorm2d(24))
    ]
    model = nn.Sequential(nn.Unflatten(1, (24, 48, 48)), *blocks, nn.Flatten(), nn.LazyLinear(10))
    model(torch.randn(2, 24 * 48 * 48))
    train(model, batches(32, 24 * 48 * 48))


def one_thread():
    train(mlp(4, 1024), batches(512, 1024))


class Annealed(nn.Module):
    """A weight that grows while it trains: a number that compiled code takes for constant."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.weight = inner, 0 if PLANTED else torch.tensor(0.0)

    def forward(self, x):
        return self.inner(x) * (1 + self.weight)


def recompilation():
    model = Annealed(mlp(4, 128))

    def after(step, *_):
        if step >= WARM_UP and step % 100 == 0:
            model.weight += 1

    train(torch.compile(model), batches(64, 128), after=after)


def recompiled_shapes():
    model = torch.compile(mlp(4, 128), dynamic=not PLANTED)

    def data():
        # One length more for each stretch of the data.
        for step in itertools.count():
            rows = 64 + step // 50
            yield torch.randn(rows, 128), torch.randint(0, 10, (rows,))

    train(model, data())


def gpu_precision():
    train(mlp(8, 4096), batches(4096, 4096))


def gpu_autocast():
    model = mlp(8, 4096)

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            with torch.autocast("cuda", torch.bfloat16, enabled=not PLANTED):
                return self.inner(x).float()

    train(Cast(), batches(4096, 4096))


def gpu_item():
    # Work enough for the host to be ahead of the device, were it not made to wait for it.
    model, data = mlp(40, 1024).to(torch.bfloat16), batches(16384, 1024, torch.bfloat16)

    def after(step, model, *_):
        if step % EVERY == 0:
            [float(p.grad.norm()) for p in model.parameters()]

    train(model, data, after=after)


def gpu_copies():
    host = torch.randn(8192, 4096)
    host = host if PLANTED else host.pin_memory()

    def data():
        y = torch.randint(0, 10, (8192,), device="cuda")
        while True:
            yield host.to("cuda", non_blocking=not PLANTED), y

    train(mlp(2, 4096), data())


def gpu_launches():
    model = Chain(length=200)
    train(model if PLANTED else torch.compile(model), batches(64))


def gpu_update():
    model = mlp(200, 256)
    form = {"foreach": False} if PLANTED else {"fused": True}
    train(model, batches(256, 256), optimizer=torch.optim.AdamW(model.parameters(), **form))


if __name__ == "__main__":
    torch.manual_seed(0)
    if CASE != "one_thread":  # its threads stand in the environment
        torch.set_num_threads(2 if CASE == "contention" else 1)
    if CASE == "gpu_precision" and not PLANTED:
        torch.set_float32_matmul_precision("high")
    globals()[CASE]()
