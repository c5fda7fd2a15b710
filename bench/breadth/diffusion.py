"""diffusers' models: U-Nets, autoencoders and transformers that denoise."""

from __future__ import annotations

from typing import Any

import diffusers
import torch
from torch.nn import functional

from breadth.steps import Build, keeper, make_build, normal, whole

MODELS: dict[str, Build] = {}
step = keeper(MODELS)

BLOCKS = {
    "block_out_channels": (64, 128),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
HEADS = {"num_attention_heads": 6, "attention_head_dim": 64}
TEXTS = {"joint_attention_dim": 512, "pooled_projection_dim": 256}
WIDTHS = (128, 256, 512, 512)
times = whole(1000)


def _unet(side: int, *widths: int) -> Any:
    return diffusers.UNet2DModel(sample_size=side, block_out_channels=widths)


def _conditioned() -> Any:
    return diffusers.UNet2DConditionModel(
        sample_size=32, cross_attention_dim=768, block_out_channels=WIDTHS
    )


def _checkpointed() -> Any:
    model = _conditioned()
    model.enable_gradient_checkpointing()
    return model


@step(lambda: _unet(64, 64, 128, 256, 256), normal(3, 64, 64), times)
def unet(model: Any, images: Any, at: Any) -> Any:
    """Without a condition."""
    return functional.mse_loss(model(images, at).sample, images)


@step(_conditioned, normal(4, 32, 32), times, normal(77, 768))
def unet_conditioned(model: Any, latents: Any, at: Any, text: Any) -> Any:
    """With cross-attention to a text, as Stable Diffusion's."""
    return functional.mse_loss(model(latents, at, text).sample, latents)


MODELS["unet_checkpointed"] = make_build(
    _checkpointed, unet_conditioned, normal(4, 32, 32), times, normal(77, 768)
)


@step(lambda: _unet(32, 64, 128, 128, 128), normal(3, 32, 32))
def noise_drawn(model: Any, images: Any) -> Any:
    """Noise and times are drawn, and the scheduler adds them, within the step."""
    noise = torch.randn_like(images)
    at = torch.randint(0, 1000, (len(images),), device=images.device)
    noisy = diffusers.DDPMScheduler().add_noise(images, noise, at)
    return functional.mse_loss(model(noisy, at).sample, noise)


@step(lambda: diffusers.AutoencoderKL(layers_per_block=2, **BLOCKS), normal(3, 128, 128))
def autoencoder(model: Any, images: Any) -> Any:
    """Latents are drawn from what the encoder gives."""
    return functional.mse_loss(model(images, sample_posterior=True).sample, images)


@step(lambda: diffusers.VQModel(**BLOCKS), normal(3, 64, 64))
def quantized(model: Any, images: Any) -> Any:
    """The nearest vectors of a codebook."""
    output, *commitments = model(images, return_dict=False)
    return functional.mse_loss(output, images) + sum(commitments)


@step(
    lambda: diffusers.DiTTransformer2DModel(num_layers=6, **HEADS),
    normal(4, 32, 32),
    times,
    whole(1000),
)
def dit(model: Any, latents: Any, at: Any, classes: Any) -> Any:
    """A transformer on patches, by class."""
    return model(latents, timestep=at, class_labels=classes).sample.pow(2).mean()


@step(
    lambda: diffusers.SD3Transformer2DModel(
        sample_size=32, num_layers=4, caption_projection_dim=384, **HEADS, **TEXTS
    ),
    normal(16, 32, 32),
    normal(77, 512),
    normal(256),
    times,
)
def stable_diffusion_3(model: Any, latents: Any, text: Any, pooled: Any, at: Any) -> Any:
    """Attention over latents and text at once."""
    return functional.mse_loss(model(latents, text, pooled, at).sample, latents)


@step(
    lambda: diffusers.FluxTransformer2DModel(
        num_layers=2, num_single_layers=4, axes_dims_rope=(16, 24, 24), **HEADS, **TEXTS
    ),
    normal(256, 64),
    normal(77, 512),
    normal(256),
)
def flux(model: Any, latents: Any, text: Any, pooled: Any) -> Any:
    """Rotary places of two axes."""
    output = model(
        latents,
        encoder_hidden_states=text,
        pooled_projections=pooled,
        timestep=torch.rand(len(latents), device=latents.device),
        img_ids=torch.zeros(256, 3, device=latents.device),
        txt_ids=torch.zeros(77, 3, device=latents.device),
    )
    return functional.mse_loss(output.sample, latents)
