"""Own modules by how they are trained: recompute, second gradients, frozen parts, wrappers."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.nn.utils import weight_norm as old_weight_norm
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from breadth.steps import Build, Draw, filled, keeper, make_build, mean_square, normal

MODELS: dict[str, Build] = {}
step = keeper(MODELS)
first_class = filled(0)


def _cross_entropy(module: Any, rows: Any, targets: Any) -> Any:
    return functional.cross_entropy(module(rows), targets)


def _perceptron() -> Any:
    return nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))


def _convolution() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 64, 3),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def _compiled_in_place() -> Any:
    module = _perceptron()
    module.compile()
    return module


def _last_layer_trained() -> Any:
    module = torchvision.models.resnet18(weights=None).requires_grad_(False)
    module.fc = nn.Linear(512, 10)
    return module


class _LowRank(nn.Module):
    """A frozen layer with a product of two small ones beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(1024, 1024).requires_grad_(False)
        self.down, self.up = nn.Linear(1024, 8, bias=False), nn.Linear(8, 1024, bias=False)

    def forward(self, rows: Any) -> Any:
        return self.frozen(rows) + self.up(self.down(rows))


def _normed(weight_norm: Any, spectral_norm: Any) -> Any:
    return nn.Sequential(
        weight_norm(nn.Conv1d(16, 32, 3)),
        nn.ReLU(),
        spectral_norm(nn.Conv1d(32, 32, 3)),
        nn.Flatten(),
        spectral_norm(nn.Linear(32 * 60, 64)),
    )


CLASSIFIED: dict[str, tuple[Any, Draw]] = {
    "compiled": (lambda: torch.compile(_perceptron()), normal(512)),
    "compiled_in_place": (_compiled_in_place, normal(512)),
    "scripted": (lambda: torch.jit.script(_perceptron()), normal(512)),
    "data_parallel": (lambda: nn.DataParallel(_perceptron()), normal(512)),
    "last_layer_trained": (_last_layer_trained, normal(3, 224, 224)),
    "synchronized_norm": (
        lambda: nn.SyncBatchNorm.convert_sync_batchnorm(_convolution()),
        normal(3, 64, 64),
    ),
    "fp16_weights": (lambda: _convolution().half(), normal(3, 64, 64, dtype=torch.half)),
    "fp64_weights": (lambda: _perceptron().double(), normal(512, dtype=torch.double)),
}
"""Module and inputs, of ten classes."""
SQUARED: dict[str, tuple[Any, Draw]] = {
    "low_rank": (lambda: nn.Sequential(*(_LowRank() for _ in range(8))), normal(128, 1024)),
    "normed_weights": (
        lambda: _normed(parametrizations.weight_norm, parametrizations.spectral_norm),
        normal(16, 64),
    ),
    "normed_weights_by_hooks": (
        lambda: _normed(old_weight_norm, old_spectral_norm),
        normal(16, 64),
    ),
    "orthogonal_weights": (lambda: parametrizations.orthogonal(nn.Linear(64, 64)), normal(64)),
}
"""Module and inputs; the loss is the mean square of the outputs."""
MODELS |= {
    name: make_build(make, _cross_entropy, draw, first_class)
    for name, (make, draw) in CLASSIFIED.items()
}
MODELS |= {name: make_build(make, mean_square, draw) for name, (make, draw) in SQUARED.items()}


class _Square(torch.autograd.Function):
    """A square with a backward pass of its own."""

    @staticmethod
    def forward(context: Any, values: Any) -> Any:
        context.save_for_backward(values)
        return values * values

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        (values,) = context.saved_tensors
        return 2 * values * gradient


@step(lambda: nn.Linear(512, 512), normal(512))
def own_function(linear: Any, rows: Any) -> Any:
    """An autograd.Function."""
    return _Square.apply(linear(rows)).mean()


@step(
    lambda: nn.ModuleDict(
        {"body": torchvision.models.resnet18(weights=None).eval(), "head": nn.Linear(1000, 10)}
    ),
    normal(3, 224, 224),
    first_class,
)
def body_without_gradient(parts: Any, images: Any, targets: Any) -> Any:
    """A body under no_grad."""
    with torch.no_grad():
        features = parts["body"](images)
    return functional.cross_entropy(parts["head"](features), targets)


def _blocks() -> Any:
    return nn.ModuleList(
        nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(6)
    )


def _recomputed(blocks: Any, rows: Any, reentrant: bool) -> Any:
    for block in blocks:
        rows = rows + checkpoint(block, rows, use_reentrant=reentrant)
    return rows.pow(2).mean()


@step(_blocks, normal(128, 512))
def recomputed(blocks: Any, rows: Any) -> Any:
    """Blocks under torch.utils.checkpoint."""
    return _recomputed(blocks, rows, reentrant=False)


@step(_blocks, normal(128, 512, requires_grad=True))
def recomputed_reentrant(blocks: Any, rows: Any) -> Any:
    """Its older way."""
    return _recomputed(blocks, rows, reentrant=True)


def _critic() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(64 * 64, 1),
    )


@step(_critic, normal(3, 32, 32))
def gradient_penalty(critic: Any, images: Any) -> Any:
    """The norm of a gradient in the loss, as WGAN-GP has it."""
    share = torch.rand(len(images), 1, 1, 1, device=images.device)
    between = images * share + torch.randn_like(images) * (1 - share)
    between.requires_grad_(True)
    scores = critic(between)
    (slope,) = torch.autograd.grad(scores.sum(), between, create_graph=True)
    return scores.mean() + 10 * ((slope.flatten(1).norm(2, 1) - 1) ** 2).mean()


def _field(entering: int) -> Any:
    return nn.Sequential(
        nn.Linear(entering, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )


@step(lambda: _field(2), normal(2, many=100, requires_grad=True))
def laplacian(field: Any, points: Any) -> Any:
    """Second derivatives, as networks of physics have them."""
    (slope,) = torch.autograd.grad(field(points).sum(), points, create_graph=True)
    seconds = [
        torch.autograd.grad(slope[:, axis].sum(), points, create_graph=True)[0][:, axis]
        for axis in range(2)
    ]
    return sum(seconds).pow(2).mean()


@step(lambda: nn.Linear(64, 10), normal(64), first_class)
def inner_step(linear: Any, rows: Any, targets: Any) -> Any:
    """The loss after a step within the step, as MAML's."""
    first = functional.cross_entropy(linear(rows), targets)
    weights = list(linear.parameters())
    slopes = torch.autograd.grad(first, weights, create_graph=True)
    moved = [weight - 0.1 * slope for weight, slope in zip(weights, slopes, strict=True)]
    return functional.cross_entropy(functional.linear(rows, *moved), targets)


@step(lambda: nn.Linear(64, 10), normal(64), first_class)
def mapped_losses(linear: Any, rows: Any, targets: Any) -> Any:
    """A loss for each example, by vmap."""
    weights = dict(linear.named_parameters())

    def one(row: Any, target: Any) -> Any:
        scores = functional_call(linear, weights, (row.unsqueeze(0),))
        return functional.cross_entropy(scores, target.unsqueeze(0))

    return vmap(one)(rows, targets).mean()


@step(lambda: _field(3), normal(3, many=100))
def mapped_gradients(field: Any, points: Any) -> Any:
    """A gradient at each point, by vmap of grad."""
    weights = dict(field.named_parameters())

    def height(point: Any) -> Any:
        return functional_call(field, weights, (point,)).squeeze()

    return vmap(grad(height))(points).pow(2).mean()


def averaged_teacher(batch: int) -> tuple[Any, Any]:
    """A teacher of averaged weights, brought up to date within the step."""
    student = _perceptron()
    teacher, rows = AveragedModel(student), torch.randn(batch, 512)

    def loss() -> Any:
        with torch.no_grad():
            wanted = teacher(rows)
        teacher.update_parameters(student)
        return functional.mse_loss(student(rows), wanted)

    return student, loss


MODELS["averaged_teacher"] = averaged_teacher


@step(_perceptron, normal(512), first_class)
def autocast_inside(module: Any, rows: Any, targets: Any) -> Any:
    """The loss's own autocast."""
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return _cross_entropy(module, rows, targets)


@step(_perceptron, normal(512), first_class)
def clipped_inside(module: Any, rows: Any, targets: Any) -> Any:
    """Gradients of the step before are clipped."""
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    return _cross_entropy(module, rows, targets)


@step(_perceptron, normal(512), first_class)
def checked_for_nan(module: Any, rows: Any, targets: Any) -> Any:
    """An assertion on the outputs."""
    scores = module(rows)
    assert not torch.isnan(scores).any()
    return functional.cross_entropy(scores, targets)
