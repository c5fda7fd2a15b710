"""GoogLeNet, the first Inception."""

from dataclasses import dataclass

from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.inception_parts import add_conv
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import DroppingImageOptions, Rate

_MODULES = (
    # Stage 3, 4 and 5 of table 1: 1×1, 3×3 reduced, 3×3, second 3×3 reduced, second 3×3, pool.
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


@dataclass(frozen=True, kw_only=True)
class GoogLeNetOptions(DroppingImageOptions):
    """Images in, classes out."""

    dropout: Rate = 0.2


def googlenet_graph(options: GoogLeNetOptions) -> LayerGraph:
    """GoogLeNet (Szegedy et al. 2015, table 1) without auxiliary heads.

    As it is built today: batch norm after each convolution in place of the paper's local response
    normalisation, and 3×3 where the paper's third branch has 5×5 (so the common implementations,
    whose 6,624,904 parameters this has).
    """
    draft = options.draft()
    add_conv(draft, "stem.conv1", 64, 7, stride=2, padding=3)
    _add_pool(draft, "stem.pool1", 3)
    add_conv(draft, "stem.conv2", 64, 1)
    add_conv(draft, "stem.conv3", 192, 3, padding=1)
    _add_pool(draft, "stem.pool2", 3)
    for stage, modules in enumerate(_MODULES, 3):
        for number, channels in enumerate(modules, 1):
            _add_inception(draft, f"stage{stage}.inception{number}", channels)
        if stage < 5:
            _add_pool(draft, f"stage{stage}.pool", 3 if stage == 3 else 2)
    draft.add("avgpool", "adaptive_avg_pool2d", size=1)
    draft.add("flatten", "flatten")
    draft.add_dropout("dropout", options.dropout)
    draft.add("output", "linear", units=options.classes)
    return draft.finish("googlenet")


def _add_pool(draft: GraphDraft, name: str, kernel: int) -> None:
    draft.add(name, "max_pool2d", kernel=kernel, stride=2, ceil=True)


def _add_inception(draft: GraphDraft, prefix: str, channels: tuple[int, ...]) -> None:
    one, reduced, three, reduced_again, three_again, pooled = channels
    entry = draft.last
    branches = [add_conv(draft, f"{prefix}.branch1", one, 1, source=entry)]
    add_conv(draft, f"{prefix}.branch2.reduce", reduced, 1, source=entry)
    branches.append(add_conv(draft, f"{prefix}.branch2.expand", three, 3, padding=1))
    add_conv(draft, f"{prefix}.branch3.reduce", reduced_again, 1, source=entry)
    branches.append(add_conv(draft, f"{prefix}.branch3.expand", three_again, 3, padding=1))
    draft.add(
        f"{prefix}.branch4.pool", "max_pool2d", entry, kernel=3, stride=1, padding=1, ceil=True
    )
    branches.append(add_conv(draft, f"{prefix}.branch4.project", pooled, 1))
    draft.add(f"{prefix}.concat", "concat", *branches)


_PAPER = "Szegedy et al.: Going Deeper with Convolutions"

MODELS = {"googlenet": Model(build=googlenet_graph, examples="images", source=_PAPER, year=2015)}
