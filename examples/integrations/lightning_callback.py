"""Lightning with one line more: each fit is a run."""

import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trainload.integrations.lightning import TrainloadCallback, TrainloadProfiler


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))

    def training_step(self, batch, _index):
        loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _index):
        found = self.model(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(found, batch[1]))
        self.log("val_acc", (found.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    L.seed_everything(0, verbose=False)
    features = torch.randn(1024, 32)
    data = TensorDataset(features, (features[:, 0] > 0).long())
    by_profiler = "--profiler" in sys.argv
    trainer = L.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[] if by_profiler else [TrainloadCallback("lightning-example")],  # this line, or
        profiler=TrainloadProfiler("lightning-example") if by_profiler else None,  # this one
    )
    trainer.fit(Classifier(), DataLoader(data, 32, shuffle=True), DataLoader(data, 256))


if __name__ == "__main__":
    main()
