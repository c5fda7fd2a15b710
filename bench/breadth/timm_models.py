"""timm's models, each with a thousand classes."""

from __future__ import annotations

from typing import Any

import timm
import torch

from breadth.steps import Build, Loss
from memory_cases import classify

NAMES = """
beit_base_patch16_224 deit3_small_patch16_224 eva02_tiny_patch14_224 mobilevit_s ghostnet_100
ghostnetv2_100 dm_nfnet_f0 poolformer_s12 mixer_b16_224 xcit_tiny_12_p16_224 davit_tiny
hiera_tiny_224 fastvit_t8 efficientvit_b0 efficientvit_m0 rexnet_100 edgenext_small cait_xxs24_224
crossvit_tiny_240 levit_128 pit_ti_224 pvt_v2_b0 twins_pcpvt_small nest_tiny coat_tiny convit_tiny
visformer_tiny volo_d1_224 tnt_s_patch16_224 sequencer2d_s gmlp_s16_224 resmlp_12_224 repvgg_a0
resnest14d res2net50_26w_4s skresnet18 selecsls42b dla34 hrnet_w18_small vovnet39a cspdarknet53
tresnet_m hardcorenas_a mixnet_s tinynet_a lcnet_050 fbnetc_100 inception_next_tiny caformer_s18
convmixer_768_32 focalnet_tiny_srf gcvit_xxtiny maxxvit_rmlp_nano_rw_256 coatnet_nano_rw_224
tiny_vit_5m_224 repvit_m1 mobileone_s0 mobilenetv4_conv_small starnet_s1 mambaout_femto
swiftformer_xs efficientformer_l1 efficientformerv2_s0 halonet26t lambda_resnet26t botnet26t_256
eca_nfnet_l0 resnetv2_50x1_bit xception41 regnetz_b16 nasnetalarge pnasnet5large
vit_base_patch16_siglip_224 naflexvit_base_patch16_gap rdnet_tiny nextvit_small test_vit
"""
SIDES = {
    "crossvit_tiny_240": 240,
    "maxxvit_rmlp_nano_rw_256": 256,
    "halonet26t": 256,
    "botnet26t_256": 256,
    "nasnetalarge": 331,
    "pnasnet5large": 331,
}
"""Pixels of an image's side where they are not 224."""


def _classifier(name: str, layout: Any = torch.contiguous_format, **options: Any) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = timm.create_model(name, pretrained=False, **options).to(memory_format=layout)
        side = SIDES.get(name, 224)
        images = torch.randn(batch, 3, side, side).to(memory_format=layout)
        return classify(model, images, 1000)

    return build


MODELS = {name: _classifier(name) for name in NAMES.split()} | {
    "resnet50_channels_last": _classifier("resnet50", torch.channels_last),
    "convnext_tiny_channels_last": _classifier("convnext_tiny", torch.channels_last),
    "vit_drop_path": _classifier("vit_base_patch16_224", drop_path_rate=0.1),
}
