"""Own modules of sets: graphs, points, experts and boxes, whose sizes may depend on numbers."""

from __future__ import annotations

from typing import Any

import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn import functional
from torchvision.ops import nms, roi_align

from breadth.steps import Build, Draw, filled, keeper, normal, whole

MODELS: dict[str, Build] = {}
step = keeper(MODELS)
nodes = normal(64, many=500)
node_classes = filled(0, many=500)


def _edges(batch: int) -> Any:
    return torch.randint(0, batch * 500, (2, batch * 4000))


class _Graph(nn.Module):
    """Means over neighbours, by index_add and scatter_add."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 128)])
        self.head = nn.Linear(128, 7)

    def forward(self, rows: Any, edges: Any) -> Any:
        begins, ends = edges
        ones = torch.ones(len(ends), device=rows.device)
        for layer in self.layers:
            hidden = layer(rows)
            sums = torch.zeros_like(hidden).index_add_(0, ends, hidden[begins])
            degrees = torch.zeros(len(hidden), device=rows.device).scatter_add_(0, ends, ones)
            rows = functional.relu(sums / degrees.clamp(min=1).unsqueeze(1))
        return self.head(rows)


@step(_Graph, nodes, _edges, node_classes)
def graph_means(model: Any, rows: Any, edges: Any, targets: Any) -> Any:
    """Two layers of a graph network."""
    return functional.cross_entropy(model(rows, edges), targets)


@step(lambda: nn.Linear(64, 64), nodes, _edges)
def graph_largest(linear: Any, rows: Any, edges: Any) -> Any:
    """The largest of the neighbours, by scatter_reduce."""
    hidden = linear(rows)
    ends = edges[1].unsqueeze(1).expand(-1, 64)
    found = torch.zeros_like(hidden).scatter_reduce(
        0, ends, hidden[edges[0]], "amax", include_self=False
    )
    return found.pow(2).mean()


def _train_mask(batch: int) -> Any:
    return torch.arange(batch * 500) < 100


@step(lambda: nn.Linear(64, 7), nodes, node_classes, _train_mask)
def graph_train_mask(linear: Any, rows: Any, targets: Any, mask: Any) -> Any:
    """The loss of the nodes that a mask names."""
    return functional.cross_entropy(linear(rows)[mask], targets[mask])


def _adjacency(batch: int) -> Any:
    size = batch * 100
    places = torch.randint(0, size, (2, size * 5))
    return torch.sparse_coo_tensor(places, torch.ones(size * 5), (size, size))


@step(lambda: nn.Linear(64, 7), normal(64, many=100), _adjacency, filled(0, many=100))
def graph_sparse(linear: Any, rows: Any, adjacency: Any, targets: Any) -> Any:
    """A product with a sparse matrix."""
    return functional.cross_entropy(torch.sparse.mm(adjacency, linear(rows)), targets)


@step(lambda: nn.Linear(64, 64), nodes, whole(10, many=500))
def pooled_by_group(linear: Any, rows: Any, groups: Any) -> Any:
    """As many sums as there are different groups."""
    different, place = torch.unique(groups, return_inverse=True)
    sums = torch.zeros(len(different), 64, device=rows.device)
    return sums.index_add_(0, place, linear(rows)).pow(2).mean()


class _Experts(nn.Module):
    """Two of eight experts for each row, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(256, 8)
        self.experts = nn.ModuleList(nn.Linear(256, 256) for _ in range(8))

    def forward(self, rows: Any) -> Any:
        weights, chosen = self.gate(rows).softmax(-1).topk(2, -1)
        mixed = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, rank = torch.where(chosen == number)
            mixed.index_add_(0, row, expert(rows[row]) * weights[row, rank, None])
        return mixed


@step(_Experts, normal(256, many=128))
def experts(model: Any, rows: Any) -> Any:
    """A mixture of experts, written as a loop."""
    return model(rows).pow(2).mean()


@step(lambda: nn.Linear(64, 5), normal(64, many=100))
def suppressed_boxes(linear: Any, rows: Any) -> Any:
    """What torchvision's nms leaves."""
    boxes, scores = linear(rows).split((4, 1), -1)
    kept = nms(boxes.detach(), scores.detach().squeeze(-1), 0.5)
    return boxes[kept].pow(2).mean() + scores[kept].pow(2).mean()


@step(lambda: nn.Linear(64, 4), normal(20, 64), normal(5, 4))
def matched_boxes(linear: Any, rows: Any, targets: Any) -> Any:
    """The Hungarian method of scipy between boxes and targets."""
    total = 0
    for found, wanted in zip(linear(rows), targets, strict=True):
        prices = torch.cdist(found, wanted).detach().cpu().numpy()
        row, column = linear_sum_assignment(prices)
        total = total + functional.l1_loss(found[row], wanted[column])
    return total


@step(
    lambda: nn.Conv2d(3, 16, 3, padding=1),
    normal(3, 64, 64),
    lambda _: torch.tensor([[0.0, 1.0, 1.0, 20.0, 20.0]]),
)
def aligned_regions(convolution: Any, images: Any, boxes: Any) -> Any:
    """torchvision's roi_align."""
    return roi_align(convolution(images), boxes, (7, 7)).pow(2).mean()


@step(lambda: nn.Linear(3, 64), normal(1024, 3))
def farthest_points(linear: Any, clouds: Any) -> Any:
    """64 points far from each other, one after another."""
    batch, device = len(clouds), clouds.device
    chosen = torch.zeros(batch, 64, dtype=torch.long, device=device)
    nearest = torch.full((batch, 1024), 1e10, device=device)
    last = torch.zeros(batch, dtype=torch.long, device=device)
    every = torch.arange(batch, device=device)
    for number in range(64):
        chosen[:, number] = last
        distance = ((clouds - clouds[every, last].unsqueeze(1)) ** 2).sum(-1)
        nearer = distance < nearest
        nearest[nearer] = distance[nearer]
        last = nearest.max(-1)[1]
    return linear(clouds[every[:, None], chosen]).max(1)[0].pow(2).mean()


def _ragged() -> Draw:
    return lambda batch: [torch.randn(10 + number, 64) for number in range(batch)]


@step(lambda: nn.Linear(64, 64), _ragged())
def nested(linear: Any, rows: Any) -> Any:
    """A nested tensor of rows of different lengths."""
    device = next(linear.parameters()).device
    together = torch.nested.nested_tensor(rows, layout=torch.jagged, device=device)
    return linear(together).values().pow(2).mean()


def _queue() -> Any:
    parts = nn.ModuleDict({"query": nn.Linear(128, 64), "key": nn.Linear(128, 64)})
    parts["key"].requires_grad_(False)
    parts.register_buffer("queue", torch.randn(64, 1024))
    parts.register_buffer("place", torch.zeros(1, dtype=torch.long))
    return parts


@step(_queue, normal(128))
def queue_of_keys(parts: Any, rows: Any) -> Any:
    """Contrast with a queue of earlier keys, whose place is read from a buffer, as MoCo's."""
    batch, query = len(rows), functional.normalize(parts["query"](rows))
    with torch.no_grad():
        key, place = functional.normalize(parts["key"](rows)), int(parts.place)
        parts.queue[:, place : place + batch] = key.T
        parts.place[0] = (place + batch) % 1024
    alike, other = (query * key).sum(1, keepdim=True), query @ parts.queue.clone().detach()
    targets = torch.zeros(batch, dtype=torch.long, device=rows.device)
    return functional.cross_entropy(torch.cat((alike, other), 1), targets)


@step(
    lambda: nn.ModuleDict({"scores": nn.Linear(64, 512), "codes": nn.Embedding(512, 64)}),
    normal(64, many=64),
)
def codes_drawn(parts: Any, rows: Any) -> Any:
    """Codes by a hard Gumbel softmax."""
    drawn = functional.gumbel_softmax(parts["scores"](rows), hard=True)
    return functional.mse_loss(drawn @ parts["codes"].weight, rows)
