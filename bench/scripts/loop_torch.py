"""A training loop written by hand in torch, for `bench/driver_cost.py`; knows nothing of trainload.

python loop_torch.py FOLDER     the batches and options stand in FOLDER; runs until SIGTERM
"""

import json
import sys

import numpy
import torch
from loop_stamps import Stamps
from torch import nn


def build(model):
    if model == "lenet5":
        return nn.Sequential(
            *(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2)),
            *(nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten()),
            *(nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
        )
    return nn.Sequential(
        *(nn.Linear(75, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()),
        *(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


def main():
    folder = sys.argv[1]
    with open(f"{folder}/options.json") as file:
        options = json.load(file)
    torch.set_num_threads(options["threads"])
    features = torch.from_numpy(numpy.load(f"{folder}/features.npy"))
    labels = torch.from_numpy(numpy.load(f"{folder}/labels.npy"))
    model = build(options["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-4)
    stamps = Stamps(folder, torch.tensor)
    for rows in stamps.batches():
        inputs = features[rows]
        if inputs.dtype == torch.uint8:
            inputs = (inputs.float() - 127.5) / 127.5
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), labels[rows])
        loss.backward()
        optimizer.step()
        stamps.keep(loss.item())
    stamps.tell()


if __name__ == "__main__":
    main()
