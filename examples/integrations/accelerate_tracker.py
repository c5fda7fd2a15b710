"""Accelerate with one line more: what is trained until `end_training` is a run."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trainload.integrations.accelerate import TrainloadTracker


def main():
    torch.manual_seed(0)
    tracker = TrainloadTracker("accelerate-example")
    accelerator = Accelerator(log_with=tracker, cpu=not torch.cuda.is_available())  # this line
    accelerator.init_trackers("example", config={"lr": 1e-3})
    features = torch.randn(1024, 32)
    data = TensorDataset(features, (features[:, 0] > 0).long())
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
    model, optimizer, loader = accelerator.prepare(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3),
        DataLoader(data, batch_size=32, shuffle=True),
    )
    for epoch in range(2):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(rows), labels)
            accelerator.backward(loss)
            optimizer.step()
        accelerator.log({"epoch": epoch, "train_loss": loss.item()}, step=epoch)
    accelerator.end_training()


if __name__ == "__main__":
    main()
