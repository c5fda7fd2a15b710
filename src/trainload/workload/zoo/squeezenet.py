"""SqueezeNet: fire modules, which squeeze the channels and expand them in two branches."""

from collections.abc import Sequence

from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import DroppingImageOptions

_SQUEEZED = (16, 16, 32, 32, 48, 48, 64, 64)
"""Squeezed channels of fire modules 2 to 9; each branch expands them four times."""


def squeezenet1_0_graph(options: DroppingImageOptions) -> LayerGraph:
    """SqueezeNet 1.0 (Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer 2016, table 1)."""
    return _squeezenet_graph("squeezenet1_0", 96, 7, (1, 4, 8), options)


def squeezenet1_1_graph(options: DroppingImageOptions) -> LayerGraph:
    """SqueezeNet 1.1: the authors' release of 2016 with 2.4 times less computation than 1.0."""
    return _squeezenet_graph("squeezenet1_1", 64, 3, (1, 3, 5), options)


def _squeezenet_graph(
    name: str, stem: int, kernel: int, pooled: Sequence[int], options: DroppingImageOptions
) -> LayerGraph:
    """`pooled` are the numbers of the modules after which the image is halved."""
    draft = options.draft()
    draft.add("features.conv1", "conv2d", channels=stem, kernel=kernel, stride=2)
    draft.add("features.relu1", "relu")
    for number in range(1, 10):
        if number > 1:
            _add_fire(draft, f"features.fire{number}", _SQUEEZED[number - 2])
        if number in pooled:
            # Rounded up, as in the authors' own (Caffe) definition.
            pool = f"features.pool{number}"
            draft.add(pool, "max_pool2d", kernel=3, stride=2, ceil=True)
    draft.add_dropout("classifier.dropout", options.dropout)
    draft.add("classifier.conv", "conv2d", channels=options.classes, kernel=1)
    draft.add("classifier.relu", "relu")
    draft.add("avgpool", "adaptive_avg_pool2d", size=1)
    draft.add("flatten", "flatten")
    return draft.finish(name)


def _add_fire(draft: GraphDraft, prefix: str, squeezed: int) -> None:
    draft.add(f"{prefix}.squeeze", "conv2d", channels=squeezed, kernel=1)
    entry = draft.add(f"{prefix}.squeeze_relu", "relu")
    branches = []
    for kernel in (1, 3):
        branch = f"{prefix}.expand{kernel}x{kernel}"
        draft.add(
            branch, "conv2d", entry, channels=4 * squeezed, kernel=kernel, padding=kernel // 2
        )
        branches.append(draft.add(f"{branch}_relu", "relu"))
    draft.add(f"{prefix}.concat", "concat", *branches)


_SQUEEZENET = "Iandola et al.: SqueezeNet: AlexNet-Level Accuracy with 50x Fewer Parameters"

MODELS = {
    "squeezenet1_0": Model(
        build=squeezenet1_0_graph, examples="images", source=_SQUEEZENET, year=2016
    ),
    "squeezenet1_1": Model(
        build=squeezenet1_1_graph, examples="images", source=_SQUEEZENET, year=2016
    ),
}
