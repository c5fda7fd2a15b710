"""A Lightning training bound by its host: a tiny model, logged at each step, a progress bar."""

import argparse

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tiny(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(8, 2)

    def training_step(self, batch, _index):
        features, labels = batch
        loss = nn.functional.cross_entropy(self.model(features), labels)
        self.log("loss", loss, prog_bar=True, on_step=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--out", default="lightning-out")
    options = parser.parse_args()
    features = torch.randn(options.rows, 8)
    data = TensorDataset(features, (features[:, 0] > 0).long())
    trainer = lightning.Trainer(
        max_epochs=1,
        logger=CSVLogger(options.out),
        log_every_n_steps=1,
        accelerator="cpu",
        devices=1,
        enable_checkpointing=False,
        default_root_dir=options.out,
    )
    trainer.fit(Tiny(), DataLoader(data, batch_size=8))


if __name__ == "__main__":
    main()
