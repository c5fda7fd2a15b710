"""VGG: 3×3 convolutions in stages, a pool after each."""

from collections.abc import Sequence

from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import DroppingImageOptions


def vgg11_graph(options: DroppingImageOptions) -> LayerGraph:
    """VGG-11 (Simonyan, Zisserman 2015, table 1, configuration A)."""
    return _vgg_graph("vgg11", (1, 1, 2, 2, 2), options)


def vgg16_graph(options: DroppingImageOptions) -> LayerGraph:
    """VGG-16 (Simonyan, Zisserman 2015, table 1, configuration D)."""
    return _vgg_graph("vgg16", (2, 2, 3, 3, 3), options)


def _vgg_graph(name: str, depths: Sequence[int], options: DroppingImageOptions) -> LayerGraph:
    draft = options.draft()
    for stage, (depth, channels) in enumerate(zip(depths, (64, 128, 256, 512, 512), strict=True)):
        prefix = f"features.stage{stage + 1}"
        for number in range(1, depth + 1):
            draft.add(f"{prefix}.conv{number}", "conv2d", channels=channels, kernel=3, padding=1)
            draft.add(f"{prefix}.relu{number}", "relu")
        draft.add(f"{prefix}.pool", "max_pool2d", kernel=2, stride=2)
    # The mean keeps the classifier's size for other images; at 224×224 it changes nothing.
    draft.add("avgpool", "adaptive_avg_pool2d", size=7)
    draft.add("flatten", "flatten")
    for number in (1, 2):
        draft.add(f"classifier.linear{number}", "linear", units=4096)
        draft.add(f"classifier.relu{number}", "relu")
        draft.add_dropout(f"classifier.dropout{number}", options.dropout)
    draft.add("classifier.output", "linear", units=options.classes)
    return draft.finish(name)


_VGG = "Simonyan, Zisserman: Very Deep Convolutional Networks for Large-Scale Image Recognition"

MODELS = {
    "vgg11": Model(build=vgg11_graph, examples="images", source=_VGG, year=2015),
    "vgg16": Model(build=vgg16_graph, examples="images", source=_VGG, year=2015),
}
