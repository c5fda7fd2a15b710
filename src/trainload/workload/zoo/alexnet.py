"""AlexNet in one column."""

from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import DroppingImageOptions

_CONVOLUTIONS = (
    # channels, kernel, stride, padding, whether a pool follows
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)


def alexnet_graph(options: DroppingImageOptions) -> LayerGraph:
    """AlexNet (Krizhevsky, Sutskever, Hinton 2012) in the one column of Krizhevsky 2014.

    Without local response normalisation, as in the later paper's common implementations.
    """
    draft = options.draft()
    for number, (channels, kernel, stride, padding, pooled) in enumerate(_CONVOLUTIONS, 1):
        draft.add(
            f"features.conv{number}",
            "conv2d",
            channels=channels,
            kernel=kernel,
            stride=stride,
            padding=padding,
        )
        draft.add(f"features.relu{number}", "relu")
        if pooled:
            draft.add(f"features.pool{number}", "max_pool2d", kernel=3, stride=2)
    # The mean keeps the classifier's size for other images; at 224×224 it changes nothing.
    draft.add("avgpool", "adaptive_avg_pool2d", size=6)
    draft.add("flatten", "flatten")
    for number in (1, 2):
        draft.add_dropout(f"classifier.dropout{number}", options.dropout)
        draft.add(f"classifier.linear{number}", "linear", units=4096)
        draft.add(f"classifier.relu{number}", "relu")
    draft.add("classifier.output", "linear", units=options.classes)
    return draft.finish("alexnet")


_PAPER = "Krizhevsky: One Weird Trick for Parallelizing Convolutional Neural Networks"

MODELS = {"alexnet": Model(build=alexnet_graph, examples="images", source=_PAPER, year=2014)}
