"""A training loop written by hand in torch, for `bench/driver_cost.py`; knows nothing of trainload.

python loop_torch.py FOLDER     the batches and options stand in FOLDER; prints seconds a step
"""

import json
import sys
import time

import numpy
import torch
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
    with open(f"{folder}/batches.json") as file:
        batches = [torch.tensor(rows) for rows in json.load(file)]
    model = build(options["model"])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=1e-4)
    losses = []
    for step, rows in enumerate(batches):
        if step == options["warm_up"]:
            start_s = time.perf_counter()
        inputs = features[rows]
        if inputs.dtype == torch.uint8:
            inputs = (inputs.float() - 127.5) / 127.5
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), labels[rows])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = time.perf_counter() - start_s
    print(json.dumps({"step_s": seconds / (len(batches) - options["warm_up"]), "loss": losses[-1]}))


if __name__ == "__main__":
    main()
