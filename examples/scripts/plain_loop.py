"""A plain torch loop: data loader, validation after each epoch, checkpoints, a printed loss."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Net(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(32 * 4 * 4, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images).flatten(1))


def train_epoch(model, loader, optimizer, device):
    model.train()
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"\r  step {step:3d}  loss {loss.item():.4f}", end="", flush=True)
    print()


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    hits = total = 0
    for images, labels in loader:
        hits += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        total += len(labels)
    return hits / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--out", type=Path, default=Path("checkpoints"))
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    images = torch.randn(options.rows, 1, 16, 16)
    labels = (images.mean(dim=(1, 2, 3)) > 0).long() + 2 * (images[:, 0, 0, 0] > 0).long()
    training, validation = random_split(TensorDataset(images, labels), [0.8, 0.2])
    loader = DataLoader(training, batch_size=options.batch_size, shuffle=True)
    held_out = DataLoader(validation, batch_size=256)
    model = Net(classes=4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    options.out.mkdir(parents=True, exist_ok=True)
    for epoch in range(options.epochs):
        print(f"epoch {epoch + 1}/{options.epochs}")
        train_epoch(model, loader, optimizer, device)
        print(f"  accuracy {validate(model, held_out, device):.3f}")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, options.out / f"epoch-{epoch + 1}.pt")


if __name__ == "__main__":
    main()
