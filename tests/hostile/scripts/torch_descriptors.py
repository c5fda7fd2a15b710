# torch: closes every descriptor in the middle of a training, and writes its own log after that.
import os
import time

import torch

torch.manual_seed(0)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
features, labels = torch.randn(32, 8), torch.randint(0, 2, (32,))
own = None
for step in range(60):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features), labels)
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
    if step == 20:
        os.closerange(3, 256)
        own = [open(f"own-{number}.txt", "w", buffering=1) for number in range(6)]
    for file in own or ():
        file.write(f"{step}\n")
    time.sleep(0.02)
