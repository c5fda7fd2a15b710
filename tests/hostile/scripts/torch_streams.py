# torch: has neither output nor errors while it trains, and leaves its losses in a file.
import sys

import torch

sys.stdout.close()
sys.stdout = sys.stderr = None
torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with open("losses.txt", "w") as file:
    for _ in range(30):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 8)).square().mean()
        loss.backward()
        optimizer.step()
        file.write(f"{loss.item().hex()}\n")
