"""A Lightning training with accumulation, validation and the checkpoint callback."""

import argparse

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 4))

    def training_step(self, batch, _index):
        features, labels = batch
        loss = nn.functional.cross_entropy(self.model(features), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _index):
        features, labels = batch
        accuracy = (self.model(features).argmax(1) == labels).float().mean()
        self.log("accuracy", accuracy, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--out", default="lightning-out")
    options = parser.parse_args()
    L.seed_everything(0)
    features = torch.randn(options.rows, 32)
    data = TensorDataset(features, (features[:, 0] > 0).long() + 2 * (features[:, 1] > 0).long())
    trainer = L.Trainer(
        max_epochs=options.epochs,
        accumulate_grad_batches=options.accumulate,
        default_root_dir=options.out,
        logger=False,
        accelerator="auto",
        devices=1,
    )
    loader = DataLoader(data, batch_size=32, shuffle=True)
    trainer.fit(Classifier(), loader, DataLoader(data, batch_size=256))


if __name__ == "__main__":
    main()
