"""LeNet-5."""

from dataclasses import dataclass

from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import Channels, Classes, ImageOptions, Side


@dataclass(frozen=True, kw_only=True)
class LeNetOptions(ImageOptions):
    """The defaults are the paper's padded digits."""

    classes: Classes = 10
    image_channels: Channels = 1
    image_height: Side = 32
    image_width: Side = 32


def lenet5_graph(options: LeNetOptions) -> LayerGraph:
    """LeNet-5 (LeCun, Bottou, Bengio, Haffner 1998, figure 2).

    As it is trained today: every map of C3 sees all maps of S2, subsampling has no trained
    factors, and scores replace the radial basis functions. C5 is a linear layer, which equals
    the paper's 5×5 convolution at 32×32 and takes other sizes too.
    """
    draft = options.draft()
    for number, channels in enumerate((6, 16), 1):
        draft.add(f"features.conv{number}", "conv2d", channels=channels, kernel=5)
        draft.add(f"features.tanh{number}", "tanh")
        draft.add(f"features.pool{number}", "avg_pool2d", kernel=2, stride=2)
    draft.add("flatten", "flatten")
    for number, units in enumerate((120, 84), 1):
        draft.add(f"classifier.linear{number}", "linear", units=units)
        draft.add(f"classifier.tanh{number}", "tanh")
    draft.add("classifier.output", "linear", units=options.classes)
    return draft.finish("lenet5")


_PAPER = "LeCun et al.: Gradient-Based Learning Applied to Document Recognition"

MODELS = {"lenet5": Model(build=lenet5_graph, examples="images", source=_PAPER, year=1998)}
