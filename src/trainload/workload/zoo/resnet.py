"""Residual networks: the published depths, and families by stages, blocks and width."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from trainload.checked import Bounds
from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import Classes, ImageOptions, Side, Width

Block = Callable[[GraphDraft, str, int, int], int]
"""Adds the layers of one block's long way, by prefix, width and stride; its channels out."""


@dataclass(frozen=True, kw_only=True)
class ResidualOptions(ImageOptions):
    """A family for sweeps; the defaults give the paper's networks for CIFAR-10 (section 4.2)."""

    classes: Classes = 10
    image_height: Side = 32
    image_width: Side = 32
    stages: Annotated[int, Bounds(low=1, high=10)] = 3
    """Each halves the image and doubles the width of the one before."""
    blocks: Annotated[int, Bounds(low=1, high=200)] = 3
    """Blocks in every stage."""
    width: Width = 16
    """Channels of the 3×3 convolutions in the first stage."""


def resnet18_graph(options: ImageOptions) -> LayerGraph:
    """ResNet-18 (He, Zhang, Ren, Sun 2016, table 1)."""
    return _resnet_graph("resnet18", _add_basic, (2, 2, 2, 2), options)


def resnet50_graph(options: ImageOptions) -> LayerGraph:
    """ResNet-50 (He, Zhang, Ren, Sun 2016, table 1), the stride in the 3×3 convolution.

    The paper has it in the first 1×1; all common implementations moved it (version 1.5).
    """
    return _resnet_graph("resnet50", _add_bottleneck, (3, 4, 6, 3), options)


def resnet152_graph(options: ImageOptions) -> LayerGraph:
    """ResNet-152 (He, Zhang, Ren, Sun 2016, table 1), the stride where ResNet-50 has it."""
    return _resnet_graph("resnet152", _add_bottleneck, (3, 8, 36, 3), options)


def conv_residual_graph(options: ResidualOptions) -> LayerGraph:
    """Stages of basic residual blocks on a 3×3 stem (He, Zhang, Ren, Sun 2016, section 4.2).

    With projections where a block changes the shape (the paper's option B). The default has
    the 20 layers of the paper's smallest.
    """
    return _family_graph("conv_residual", _add_basic, options)


def conv_bottleneck_graph(options: ResidualOptions) -> LayerGraph:
    """Stages of bottleneck blocks, four times as wide outside, on a 3×3 stem (He et al. 2016)."""
    return _family_graph("conv_bottleneck", _add_bottleneck, options)


def _resnet_graph(
    name: str, block: Block, depths: Sequence[int], options: ImageOptions
) -> LayerGraph:
    draft = options.draft()
    _add_conv(draft, "stem", "", 64, 7, 2)
    draft.add("stem.relu", "relu")
    draft.add("stem.pool", "max_pool2d", kernel=3, stride=2, padding=1)
    _add_stages(draft, block, depths, 64)
    return _finish(draft, name, options.classes)


def _family_graph(name: str, block: Block, options: ResidualOptions) -> LayerGraph:
    draft = options.draft()
    _add_conv(draft, "stem", "", options.width, 3, 1)
    draft.add("stem.relu", "relu")
    _add_stages(draft, block, [options.blocks] * options.stages, options.width)
    return _finish(draft, name, options.classes)


def _finish(draft: GraphDraft, name: str, classes: int) -> LayerGraph:
    draft.add("avgpool", "adaptive_avg_pool2d", size=1)
    draft.add("flatten", "flatten")
    draft.add("output", "linear", units=classes)
    return draft.finish(name)


def _add_stages(draft: GraphDraft, block: Block, depths: Sequence[int], width: int) -> None:
    """Add all blocks on a stem that has the first stage's width."""
    channels = width
    for stage, depth in enumerate(depths):
        for number in range(depth):
            prefix = f"stage{stage + 1}.block{number + 1}"
            stride = 2 if stage and not number else 1
            entry = shortcut = draft.last
            out = block(draft, prefix, width << stage, stride)
            way = draft.last
            if stride != 1 or out != channels:
                draft.add(
                    f"{prefix}.shortcut.conv",
                    "conv2d",
                    entry,
                    channels=out,
                    kernel=1,
                    stride=stride,
                    bias=False,
                )
                shortcut = draft.add(f"{prefix}.shortcut.norm", "batch_norm")
            draft.add(f"{prefix}.add", "add", way, shortcut)
            draft.add(f"{prefix}.relu", "relu")
            channels = out


def _add_basic(draft: GraphDraft, prefix: str, width: int, stride: int) -> int:
    _add_conv(draft, prefix, "1", width, 3, stride)
    draft.add(f"{prefix}.relu1", "relu")
    _add_conv(draft, prefix, "2", width, 3, 1)
    return width


def _add_bottleneck(draft: GraphDraft, prefix: str, width: int, stride: int) -> int:
    _add_conv(draft, prefix, "1", width, 1, 1)
    draft.add(f"{prefix}.relu1", "relu")
    _add_conv(draft, prefix, "2", width, 3, stride)
    draft.add(f"{prefix}.relu2", "relu")
    _add_conv(draft, prefix, "3", 4 * width, 1, 1)
    return 4 * width


def _add_conv(
    draft: GraphDraft, prefix: str, number: str, channels: int, kernel: int, stride: int
) -> None:
    draft.add(
        f"{prefix}.conv{number}",
        "conv2d",
        channels=channels,
        kernel=kernel,
        stride=stride,
        padding=kernel // 2,
        bias=False,
    )
    draft.add(f"{prefix}.norm{number}", "batch_norm")


_RESNET = "He, Zhang, Ren, Sun: Deep Residual Learning for Image Recognition"

MODELS = {
    "resnet18": Model(build=resnet18_graph, examples="images", source=_RESNET, year=2016),
    "resnet50": Model(build=resnet50_graph, examples="images", source=_RESNET, year=2016),
    "resnet152": Model(build=resnet152_graph, examples="images", source=_RESNET, year=2016),
    "conv_residual": Model(
        build=conv_residual_graph, examples="images", source=_RESNET, year=2016, family=True
    ),
    "conv_bottleneck": Model(
        build=conv_bottleneck_graph, examples="images", source=_RESNET, year=2016, family=True
    ),
}
