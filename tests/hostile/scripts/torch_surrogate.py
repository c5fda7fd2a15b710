# torch: has a layer whose name is no UTF-8, and fails with such a name.
import torch

torch.manual_seed(0)
model = torch.nn.Sequential()
model.add_module("caf\udce9", torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(60):
    optimizer.zero_grad()
    loss = model(torch.randn(32, 8)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
raise ValueError("caf\udce9.png")
