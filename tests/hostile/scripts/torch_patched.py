# torch: has clocks, json and files of its own while it trains.
import builtins
import json
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.Adam(model.parameters())
features, labels = torch.randn(32, 8), torch.randint(0, 2, (32,))


def fail(*_args, **_kwargs):
    raise RuntimeError("not for you")


sleep = time.sleep
json.dumps = json.loads = builtins.open = fail
time.monotonic = time.time = lambda: 0.0
for _ in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
    sleep(0.02)
