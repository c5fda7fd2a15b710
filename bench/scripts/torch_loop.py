"""A plain torch loop as anyone writes it: a network on made-up images through a DataLoader.

Knows nothing of trainload: `trainload run bench/scripts/torch_loop.py -- --steps 300`.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--compile", action="store_true")
options = parser.parse_args()


class Images(Dataset):
    """Noise with a label, the same for an index every time."""

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, options.size, options.size, generator=generator), index % 1000


def build():
    """ResNet-50 where torchvision is there, else a few convolutions."""
    try:
        from torchvision.models import resnet50
    except (ImportError, RuntimeError):
        return nn.Sequential(
            nn.Conv2d(3, 16, 7, 4),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, 2),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 1000),
        )
    return resnet50()


def main():
    """Train for as many steps as asked for, in mixed precision on a GPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = build().to(device)
    if options.compile:
        model = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(
        Images(), batch_size=options.batch, num_workers=options.workers, pin_memory=device == "cuda"
    )
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
            loss = criterion(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % 50 == 0:
            print(step, loss.item())
        if step + 1 >= options.steps:
            break


if __name__ == "__main__":
    main()
