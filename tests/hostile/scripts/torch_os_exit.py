# torch: leaves by os._exit(0) after its last step.
import os
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(30):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
sys.stdout.flush()
os._exit(0)
