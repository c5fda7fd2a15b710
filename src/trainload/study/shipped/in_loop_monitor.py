"""The perceptron of study L in a plain torch loop, with or without its monitor inside the loop.

The study started nvidia-smi twice every batch/4 iterations, in the training's own process.
"""

import argparse
import subprocess
import time

import torch
from torch import nn

READ = ["nvidia-smi", "--query-gpu=utilization.gpu,memory.used,memory.total", "--format=csv"]
ROWS, FEATURES, UNITS, BLOCKS, CLASSES = 80908, 75, 512, 3, 10


def build_model() -> nn.Module:
    layers = []
    for before in [FEATURES] + [UNITS] * (BLOCKS - 1):
        layers += [nn.Linear(before, UNITS), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(UNITS, CLASSES))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--batch-size", type=int, default=512)
    words.add_argument("--monitor", choices=("none", "in-loop"), default="none")
    words.add_argument("--rows", type=int, default=ROWS)
    words.add_argument("--epochs", type=int, default=2)
    asked = words.parse_args()

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    frames = torch.rand(asked.rows, FEATURES)
    skills = torch.randint(CLASSES, (asked.rows,))
    data = torch.utils.data.TensorDataset(frames, skills)
    loader = torch.utils.data.DataLoader(data, batch_size=asked.batch_size, shuffle=True)
    model = build_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-4)
    loss_of = nn.CrossEntropyLoss()
    every = max(1, asked.batch_size // 4)
    for epoch in range(asked.epochs):
        began = time.perf_counter()
        for number, (inputs, labels) in enumerate(loader):
            optimizer.zero_grad()
            loss = loss_of(model(inputs.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            if asked.monitor == "in-loop" and number % every == 0:
                for _ in range(2):  # once for the load, once for the memory
                    subprocess.run(READ, stdout=subprocess.DEVNULL, check=True)
        print(f"epoch {epoch + 1}: {time.perf_counter() - began:.4f} s")


if __name__ == "__main__":
    main()
