"""Own modules of less common operators: spectra, decompositions, distributions, losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributions, nn
from torch.nn import functional
from torchvision.ops import DeformConv2d

from breadth.steps import Build, filled, keeper, make_build, mean_square, normal

MODELS: dict[str, Build] = {}
step = keeper(MODELS)


class _Spectral(nn.Module):
    """Complex weights for the lowest twelve frequencies each way."""

    def __init__(self) -> None:
        super().__init__()
        self.entry, self.head = nn.Conv2d(3, 32, 1), nn.Conv2d(32, 3, 1)
        self.weight = nn.Parameter(0.02 * torch.randn(32, 32, 12, 12, dtype=torch.cfloat))

    def forward(self, images: Any) -> Any:
        hidden = self.entry(images)
        spectrum = torch.fft.rfft2(hidden)
        mixed = torch.zeros_like(spectrum)
        low = spectrum[:, :, :12, :12]
        mixed[:, :, :12, :12] = torch.einsum("bixy,ioxy->boxy", low, self.weight)
        return self.head(torch.fft.irfft2(mixed, s=hidden.shape[-2:]))


@step(_Spectral, normal(3, 64, 64))
def fourier_layer(model: Any, images: Any) -> Any:
    """A layer of a Fourier operator."""
    return functional.mse_loss(model(images), images)


@step(lambda: nn.Conv1d(1, 1, 15, padding=7), normal(1, 16000), lambda _: torch.hann_window(512))
def spectrogram(convolution: Any, sounds: Any, window: Any) -> Any:
    """stft and back."""
    heard = convolution(sounds).squeeze(1)
    spectrum = torch.stft(heard, 512, 128, window=window, return_complex=True)
    again = torch.istft(spectrum, 512, 128, window=window)
    return spectrum.abs().mean() + again.pow(2).mean()


@step(lambda: nn.Linear(64, 64, dtype=torch.cfloat), normal(64, dtype=torch.cfloat))
def complex_weights(linear: Any, rows: Any) -> Any:
    """A layer of complex numbers."""
    return linear(rows).abs().mean()


@step(
    lambda: nn.ModuleDict(
        {
            "offsets": nn.Conv2d(16, 18, 3, padding=1),
            "convolution": DeformConv2d(16, 32, 3, padding=1),
        }
    ),
    normal(16, 32, 32),
)
def deformed_convolution(parts: Any, images: Any) -> Any:
    """torchvision's, with offsets that are learned."""
    return parts["convolution"](images, parts["offsets"](images)).pow(2).mean()


@step(
    lambda: nn.Sequential(nn.Conv2d(3, 8, 7, stride=4), nn.Flatten(), nn.Linear(8 * 15 * 15, 6)),
    normal(3, 64, 64),
)
def sampled_by_grid(locate: Any, images: Any) -> Any:
    """Images turned by what a network says."""
    turns = locate(images).view(-1, 2, 3)
    grid = functional.affine_grid(turns, images.shape, align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False).pow(2).mean()


def _volumes() -> Any:
    return nn.Sequential(
        nn.Conv3d(1, 16, 3, 2, 1),
        nn.InstanceNorm3d(16),
        nn.LeakyReLU(),
        nn.ConvTranspose3d(16, 1, 4, 2, 1),
    )


@step(_volumes, normal(1, 64, 64, 64))
def volumes(model: Any, given: Any) -> Any:
    """Convolutions over three sides, there and back."""
    return functional.mse_loss(model(given), given)


def _shuffled() -> Any:
    return nn.Sequential(
        nn.ReflectionPad2d(1),
        nn.Conv2d(3, 48, 3),
        nn.PixelShuffle(4),
        nn.PReLU(),
        nn.GroupNorm(1, 3),
        nn.Upsample(scale_factor=0.5, mode="bicubic"),
        nn.LocalResponseNorm(3),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.1),
    )


MODELS["shuffled_pixels"] = make_build(_shuffled, mean_square, normal(3, 64, 64))


@step(lambda: nn.Conv2d(3, 8, 3, padding=1), normal(3, 64, 64))
def folded(convolution: Any, images: Any) -> Any:
    """Pooling undone, and patches taken apart and put together."""
    hidden = convolution(images)
    pooled, places = functional.max_pool2d(hidden, 2, return_indices=True)
    patches = functional.unfold(hidden, 3)
    again = functional.fold(patches, (64, 64), 3)
    return functional.max_unpool2d(pooled, places, 2).pow(2).mean() + again.mean()


@step(lambda: nn.Linear(64, 64), normal(8, 64))
def decompositions(linear: Any, rows: Any) -> Any:
    """Cholesky, singular values, an inverse, eigenvalues, a determinant and a solution."""
    hidden = linear(rows)
    square = hidden @ hidden.mT + torch.eye(8, device=rows.device)
    parts = (
        torch.linalg.cholesky(square),
        torch.linalg.svd(hidden, full_matrices=False)[1],
        torch.linalg.inv(square),
        torch.linalg.eigvalsh(square),
        torch.logdet(square),
        torch.linalg.solve(square, hidden),
    )
    return sum(part.mean() for part in parts)


@step(lambda: nn.Linear(64, 32), normal(64))
def drawn_latents(linear: Any, rows: Any) -> Any:
    """torch.distributions, with their checks."""
    mean, spread = linear(rows).chunk(2, -1)
    latent, choice = (
        distributions.Normal(mean, spread.exp()),
        distributions.Categorical(logits=mean),
    )
    apart = distributions.kl_divergence(latent, distributions.Normal(0.0, 1.0)).mean()
    return apart - choice.log_prob(choice.sample()).mean() + latent.rsample().mean()


@step(
    lambda: nn.Sequential(
        nn.Linear(63, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)
    ),
    normal(3, many=256),
    normal(3, many=256),
    normal(3, many=256),
)
def radiance_field(model: Any, begins: Any, ways: Any, colours: Any) -> Any:
    """Rays through a field of colours and densities, as NeRF's."""
    jitter = 0.05 * torch.rand(len(begins), 64, device=begins.device)
    depths = torch.linspace(2.0, 6.0, 64, device=begins.device) + jitter
    points = begins[:, None] + ways[:, None] * depths[..., None]
    waves = [wave(points * 2**octave) for octave in range(10) for wave in (torch.sin, torch.cos)]
    seen = model(torch.cat([points, *waves], -1))
    gaps = torch.cat((depths.diff(dim=-1), torch.full_like(depths[:, :1], 1e10)), -1)
    opaque = 1 - torch.exp(-functional.relu(seen[..., 3]) * gaps)
    passed = torch.cat((torch.ones_like(opaque[:, :1]), 1 - opaque + 1e-10), -1)
    weights = opaque * passed.cumprod(-1)[:, :-1]
    shown = (weights[..., None] * torch.sigmoid(seen[..., :3])).sum(1)
    return functional.mse_loss(shown, colours)


@step(lambda: nn.Linear(64, 10), normal(64), filled(0), filled(0.5, 10))
def many_losses(linear: Any, rows: Any, targets: Any, wanted: Any) -> Any:
    """A sum of losses that functional offers."""
    scores = linear(rows)
    shares, ones = scores.log_softmax(-1), torch.ones_like(scores)
    return (
        functional.multi_margin_loss(scores, targets)
        + functional.binary_cross_entropy_with_logits(scores, wanted)
        + functional.kl_div(shares, wanted, reduction="batchmean")
        + functional.triplet_margin_loss(scores, wanted, wanted + 1)
        + functional.cosine_embedding_loss(scores, wanted, ones[:, 0])
        + functional.huber_loss(scores, wanted)
        + functional.smooth_l1_loss(scores, wanted)
        + functional.poisson_nll_loss(scores, wanted)
        + functional.gaussian_nll_loss(scores, wanted, ones)
        + functional.hinge_embedding_loss(scores, ones)
        + functional.multilabel_soft_margin_loss(scores, wanted)
        + functional.nll_loss(shares, targets, weight=ones[0])
    )
