"""torchvision's models: classification, segmentation, video and detection."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torch.nn import functional

from breadth.steps import Build, Loss, name_all
from memory_cases import classify

CLASSIFIERS = """
alexnet vgg11_bn squeezenet1_1 resnet50 resnext50_32x4d wide_resnet50_2 densenet121 googlenet
mobilenet_v2 mobilenet_v3_large mnasnet1_0 shufflenet_v2_x1_0 efficientnet_b0 efficientnet_v2_s
regnet_y_400mf regnet_x_800mf vit_b_16 swin_t swin_v2_t convnext_tiny maxvit_t inception_v3
"""
SEGMENTERS = """
deeplabv3_resnet50 fcn_resnet50 lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large
"""
SIDES = {"inception_v3": 299, "r3d_18": 112, "mc3_18": 112, "r2plus1d_18": 112}
"""Pixels of an image's side where they are not 224."""
CLIPS = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "mvit_v1_b", "mvit_v2_s", "swin3d_t")
DETECTORS: dict[str, dict[str, Any]] = {
    "fasterrcnn_resnet50_fpn": {},
    "retinanet_resnet50_fpn": {},
    "fcos_resnet50_fpn": {},
    "ssd300_vgg16": {},
    "ssdlite320_mobilenet_v3_large": {},
    "maskrcnn_resnet50_fpn": {"masks": torch.ones(2, 320, 320, dtype=torch.uint8)},
    "keypointrcnn_resnet50_fpn": {
        "keypoints": torch.rand(2, 17, 3),
        "labels": torch.tensor([1, 1]),
    },
}
"""Detector -> what its targets hold beside boxes, or in place of two classes."""
BOXES = ((10.0, 10.0, 100.0, 120.0), (50.0, 60.0, 200.0, 220.0))


def _classifier(name: str) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = getattr(torchvision.models, name)(weights=None)
        side = SIDES.get(name, 224)
        return classify(model, torch.randn(batch, 3, side, side), 1000)

    return build


def _segmenter(name: str) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        family = torchvision.models.segmentation
        model = getattr(family, name)(weights=None, weights_backbone=None, num_classes=21)
        images = torch.randn(batch, 3, 256, 256)
        targets = torch.randint(0, 21, (batch, 256, 256))
        return model, lambda: functional.cross_entropy(model(images)["out"], targets)

    return build


def _clip(name: str) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = getattr(torchvision.models.video, name)(weights=None)
        side = SIDES.get(name, 224)
        return classify(model, torch.randn(batch, 3, 16, side, side), 400)

    return build


def _detector(name: str) -> Build:
    def build(batch: int) -> tuple[Any, Loss]:
        model = getattr(torchvision.models.detection, name)(weights=None, weights_backbone=None)
        images = [torch.rand(3, 320, 320) for _ in range(batch)]
        boxes, labels = torch.tensor(BOXES), torch.tensor([1, 2])
        targets = [
            {"boxes": boxes.clone(), "labels": labels.clone(), **DETECTORS[name]} for _ in images
        ]
        return model, lambda: sum(model(images, targets).values())

    return build


MODELS = (
    {name: _classifier(name) for name in CLASSIFIERS.split()}
    | name_all("segmentation_", {name: _segmenter(name) for name in SEGMENTERS.split()})
    | name_all("video_", {name: _clip(name) for name in CLIPS})
    | name_all("detection_", {name: _detector(name) for name in DETECTORS})
)
