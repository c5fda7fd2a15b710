"""A training script as people write them; run by the op trace's tests, never for itself."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images, labels = torch.randn(400, 3, 16, 16), torch.randint(0, 10, (400,))
loader = DataLoader(
    TensorDataset(images, labels), batch_size=20, shuffle=True, num_workers=2, pin_memory=True
)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(6272, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
model = model.to(device)
average = copy.deepcopy(model)
criterion = nn.CrossEntropyLoss()
scaler = torch.amp.GradScaler("cuda")
best = float("inf")
for _epoch in range(1000):
    total = correct = 0
    for batch, targets in loader:
        batch, targets = batch.to(device, non_blocking=True), targets.cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(batch)
            loss = criterion(scores, targets)
        if not torch.isfinite(loss):
            raise SystemExit("the loss is gone")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
        correct += (scores.argmax(1) == targets).sum().item()
        print(f"loss {loss:.3f}, {torch.cuda.max_memory_allocated()} bytes")  # noqa: T201
        torch.cuda.synchronize()
    if total < best:
        torch.save(model.state_dict(), "/nonexistent/best.pt")
