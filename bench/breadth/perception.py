"""transformers' models of images, videos, sound, several of them at once, and series."""

from __future__ import annotations

from typing import Any

import torch

from breadth.language import SMALL
from breadth.pretrained import Inputs, Recipe, build_all, long_zeros, tokens

Options = dict[str, Any]
IMAGE_TOKEN, VISION_START = 50, 49


def _images(side: int = 224, *label: int) -> Inputs:
    return lambda batch: {
        "pixel_values": torch.randn(batch, 3, side, side),
        "labels": long_zeros(batch, *label),
    }


def _pixels(batch: int) -> Options:
    return {"pixel_values": torch.randn(batch, 3, 224, 224)}


def _frames(frames: int) -> Inputs:
    return lambda batch: {
        "pixel_values": torch.randn(batch, frames, 3, 224, 224),
        "labels": long_zeros(batch),
    }


def _boxes(side: int) -> Inputs:
    def draw(batch: int) -> Options:
        labels = [
            {"class_labels": torch.tensor([1, 2]), "boxes": torch.rand(2, 4)} for _ in range(batch)
        ]
        return {"pixel_values": torch.randn(batch, 3, side, side), "labels": labels}

    return draw


def _masks(batch: int) -> Options:
    return {
        "pixel_values": torch.randn(batch, 3, 256, 256),
        "mask_labels": [torch.ones(2, 256, 256) for _ in range(batch)],
        "class_labels": [torch.tensor([1, 2]) for _ in range(batch)],
    }


def _points(batch: int) -> Options:
    return {
        "pixel_values": torch.randn(batch, 3, 1024, 1024),
        "input_points": torch.rand(batch, 1, 1, 2),
    }


def _spoken(batch: int) -> Options:
    """A second of sound and the twelve letters that are said in it."""
    return {
        "input_values": torch.randn(batch, 16000),
        "labels": torch.randint(1, 30, (batch, 12)),
    }


def _sound_of_class(batch: int) -> Options:
    return {"input_values": torch.randn(batch, 16000), "labels": long_zeros(batch)}


def _spectrogram_of_class(batch: int) -> Options:
    return {"input_values": torch.randn(batch, 1024, 128), "labels": long_zeros(batch)}


def _speech(batch: int) -> Options:
    return {"input_features": torch.randn(batch, 80, 3000), "labels": tokens(batch, 64)}


def _clap(batch: int) -> Options:
    return {"input_features": torch.randn(batch, 1, 1001, 64)}


def _letters(batch: int) -> Options:
    return {"input_ids": torch.randint(5, 30, (batch, 64))}


def _pairs(places: int) -> Inputs:
    """An image and its text, as contrastive models compare them."""
    return lambda batch: {
        **_pixels(batch),
        "input_ids": tokens(batch, places),
        "return_loss": True,
    }


def _masked_pairs(batch: int) -> Options:
    return {**_pairs(77)(batch), "attention_mask": torch.ones(batch, 77, dtype=torch.long)}


def _captions(batch: int) -> Options:
    return {
        "input_ids": tokens(batch, 32),
        "labels": tokens(batch, 32),
        "pixel_values": torch.randn(batch, 3, 384, 384),
    }


def _image_first(places: int, words: int) -> Inputs:
    """A text that begins with the places of an image."""
    return lambda batch: {
        **_pixels(batch),
        "input_ids": torch.cat(
            (torch.full((batch, places), IMAGE_TOKEN), 100 + tokens(batch, words)), 1
        ),
        "labels": tokens(batch, places + words),
    }


def _patches(batch: int) -> Options:
    """Images as Qwen takes them: rows of patches, and how many there are each way."""
    start, image = torch.full((batch, 1), VISION_START), torch.full((batch, 64), IMAGE_TOKEN)
    words = torch.cat((start, image, 100 + tokens(batch, 64)), 1)
    return {
        "input_ids": words,
        "labels": words.clone(),
        "mm_token_type_ids": (words == IMAGE_TOKEN).long(),
        "pixel_values": torch.randn(batch * 256, 3 * 2 * 14 * 14),
        "image_grid_thw": torch.tensor([[1, 16, 16]] * batch),
    }


def _pages(batch: int) -> Options:
    """Words with their places on a page, and the page."""
    return {
        **_pixels(batch),
        "input_ids": tokens(batch, 128),
        "bbox": long_zeros(batch, 128, 4),
        "labels": long_zeros(batch, 128),
    }


def _games(batch: int) -> Options:
    return {
        "states": torch.randn(batch, 20, 11),
        "actions": torch.randn(batch, 20, 3),
        "rewards": torch.randn(batch, 20, 1),
        "returns_to_go": torch.randn(batch, 20, 1),
        "timesteps": torch.arange(20).expand(batch, 20),
        "attention_mask": torch.ones(batch, 20),
    }


def _series(batch: int) -> Options:
    return {
        "past_values": torch.randn(batch, 51),
        "past_time_features": torch.randn(batch, 51, 2),
        "past_observed_mask": torch.ones(batch, 51),
        "future_values": torch.randn(batch, 24),
        "future_time_features": torch.randn(batch, 24, 2),
    }


def _channels(batch: int) -> Options:
    return {"past_values": torch.randn(batch, 128, 7), "future_values": torch.randn(batch, 24, 7)}


CLASSIFIERS = """
ViT DeiT Swin Swinv2 ConvNext ConvNextV2 Dinov2 ResNet MobileViT Pvt Cvt Segformer
"""
FOUR = {"num_hidden_layers": 4}
TWENTY = {"num_labels": 20}


def _resnet(*stages: str) -> Options:
    return {
        "use_timm_backbone": False,
        "use_pretrained_backbone": False,
        "backbone": None,
        "backbone_config": {"model_type": "resnet", "out_features": list(stages)},
    }


BLIP2 = {
    "vision_config": {"num_hidden_layers": 2},
    "qformer_config": {"num_hidden_layers": 2},
    "text_config": {"model_type": "opt", "num_hidden_layers": 2},
    "image_token_index": IMAGE_TOKEN,
}
LLAVA = {
    "vision_config": {"model_type": "clip_vision_model", "num_hidden_layers": 3},
    "text_config": {"model_type": "llama", **SMALL},
    "image_token_index": IMAGE_TOKEN,
}
ROTARY = {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 10000.0}
QWEN2_VL = {
    "text_config": {**SMALL, "rope_parameters": ROTARY},
    "vision_config": {"depth": 2, "embed_dim": 256, "num_heads": 4, "hidden_size": 512},
    "image_token_id": IMAGE_TOKEN,
    "vision_start_token_id": VISION_START,
}
SERIES = {
    "prediction_length": 24,
    "context_length": 48,
    "lags_sequence": [1, 2, 3],
    "num_time_features": 2,
}
PATCHTST = {"num_input_channels": 7, "context_length": 128, "prediction_length": 24}

TABLE: dict[str, tuple[str, str, Inputs, Options]] = {
    "vit_mae": ("ViTMAE", "ForPreTraining", _pixels, {}),
    "videomae": ("VideoMAE", "ForVideoClassification", _frames(16), FOUR),
    "timesformer": ("Timesformer", "ForVideoClassification", _frames(8), FOUR),
    "segformer": ("Segformer", "ForSemanticSegmentation", _images(256, 256, 256), TWENTY),
    "dpt": ("DPT", "ForSemanticSegmentation", _images(384, 384, 384), TWENTY),
    "detr": ("Detr", "ForObjectDetection", _boxes(320), _resnet("stage4")),
    "deformable_detr": (
        "DeformableDetr",
        "ForObjectDetection",
        _boxes(320),
        _resnet("stage2", "stage3", "stage4"),
    ),
    "yolos": ("Yolos", "ForObjectDetection", _boxes(320), FOUR | {"image_size": [320, 320]}),
    "rt_detr": ("RTDetr", "ForObjectDetection", _boxes(640), {}),
    "mask2former": ("Mask2Former", "ForUniversalSegmentation", _masks, {}),
    "whisper": ("Whisper", "ForConditionalGeneration", _speech, {}),
    "wav2vec2": ("Wav2Vec2", "ForCTC", _spoken, FOUR),
    "wav2vec2_unmasked": ("Wav2Vec2", "ForCTC", _spoken, FOUR | {"mask_time_prob": 0.0}),
    "wav2vec2_classes": ("Wav2Vec2", "ForSequenceClassification", _sound_of_class, FOUR),
    "hubert": ("Hubert", "ForCTC", _spoken, FOUR),
    "ast": ("AST", "ForAudioClassification", _spectrogram_of_class, {}),
    "clip": ("CLIP", "Model", _masked_pairs, {}),
    "siglip": ("Siglip", "Model", _pairs(64), {}),
    "blip": ("Blip", "ForConditionalGeneration", _captions, {}),
    "blip2": ("Blip2", "ForConditionalGeneration", _image_first(32, 32), BLIP2),
    "llava": ("Llava", "ForConditionalGeneration", _image_first(49, 64), LLAVA),
    "qwen2_vl": ("Qwen2VL", "ForConditionalGeneration", _patches, QWEN2_VL),
    "layoutlmv3": ("LayoutLMv3", "ForTokenClassification", _pages, {}),
    "time_series": ("TimeSeriesTransformer", "ForPrediction", _series, SERIES),
    "patchtst": ("PatchTST", "ForPrediction", _channels, PATCHTST),
}
"""Configuration, model, inputs, options."""

WITHOUT_LOSS = {
    "sam": Recipe(
        config="Sam",
        model="Model",
        inputs=_points,
        options={"vision_config": {"num_hidden_layers": 2, "global_attn_indexes": [1]}},
        output="pred_masks",
    ),
    "clap_audio": Recipe(
        config="ClapAudio", model="ModelWithProjection", inputs=_clap, output="audio_embeds"
    ),
    "vits": Recipe(config="Vits", model="Model", inputs=_letters, output="waveform"),
    "decision_transformer": Recipe(
        config="DecisionTransformer",
        model="Model",
        inputs=_games,
        options={"state_dim": 11, "act_dim": 3},
        output="action_preds",
    ),
}

MODELS = build_all(
    {
        f"image_{config.lower()}": Recipe(
            config=config, model="ForImageClassification", inputs=_images()
        )
        for config in CLASSIFIERS.split()
    }
    | {
        name: Recipe(config=config, model=model, inputs=inputs, options=options)
        for name, (config, model, inputs, options) in TABLE.items()
    }
    | WITHOUT_LOSS
)
