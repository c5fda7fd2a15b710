"""A loop with Hugging Face Accelerate, gradient accumulation included."""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rows", type=int, default=2048)
    options = parser.parse_args()
    torch.manual_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2, cpu=not torch.cuda.is_available())
    features = torch.randn(options.rows, 32)
    data = TensorDataset(features, (features[:, 0] > 0).long())
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(data, batch_size=32, shuffle=True),
    )
    for epoch in range(options.epochs):
        for rows, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(rows), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
