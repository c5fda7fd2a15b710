"""Inception-v3: modules whose branches factor large convolutions into small ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.inception_parts import Pair, add_conv
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import DroppingImageOptions, Side

Steps = Sequence[tuple[int, Pair]]
"""Convolutions of one branch: channels and kernel."""
_ROW7, _COLUMN7 = (1, 7), (7, 1)
_ROW3, _COLUMN3 = (1, 3), (3, 1)


@dataclass(frozen=True, kw_only=True)
class InceptionV3Options(DroppingImageOptions):
    """Images in, classes out."""

    image_height: Side = 299
    image_width: Side = 299


def inception_v3_graph(options: InceptionV3Options) -> LayerGraph:
    """Inception-v3 (Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2016, table 1), no auxiliary head."""
    draft = options.draft()
    add_conv(draft, "stem.conv1", 32, 3, stride=2)
    add_conv(draft, "stem.conv2", 32, 3)
    add_conv(draft, "stem.conv3", 64, 3, padding=1)
    draft.add("stem.pool1", "max_pool2d", kernel=3, stride=2)
    add_conv(draft, "stem.conv4", 80, 1)
    add_conv(draft, "stem.conv5", 192, 3)
    draft.add("stem.pool2", "max_pool2d", kernel=3, stride=2)
    for number, pooled in enumerate((32, 64, 64), 1):
        _add_figure5(draft, f"mixed5_{number}", pooled)
    _add_halving(draft, "mixed6_1", [(384, 3)], [(64, 1), (96, 3), (96, 3)])
    for number, squeezed in enumerate((128, 160, 160, 192), 2):
        _add_figure6(draft, f"mixed6_{number}", squeezed)
    long: Steps = [(192, 1), (192, _ROW7), (192, _COLUMN7), (192, 3)]
    _add_halving(draft, "mixed7_1", [(192, 1), (320, 3)], long)
    for number in (2, 3):
        _add_figure7(draft, f"mixed7_{number}")
    draft.add("avgpool", "adaptive_avg_pool2d", size=1)
    draft.add_dropout("dropout", options.dropout)
    draft.add("flatten", "flatten")
    draft.add("output", "linear", units=options.classes)
    return draft.finish("inception_v3")


def _add_figure5(draft: GraphDraft, prefix: str, pooled: int) -> None:
    """Two 3×3 in place of a 5×5 (figure 5), beside one 5×5 that the authors' code kept."""
    entry = draft.last
    branches = [
        _add_branch(draft, f"{prefix}.branch1", entry, [(64, 1)]),
        _add_branch(draft, f"{prefix}.branch2", entry, [(48, 1), (64, 5)]),
        _add_branch(draft, f"{prefix}.branch3", entry, [(64, 1), (96, 3), (96, 3)]),
        _add_pooled(draft, f"{prefix}.branch4", entry, pooled),
    ]
    draft.add(f"{prefix}.concat", "concat", *branches)


def _add_figure6(draft: GraphDraft, prefix: str, inner: int) -> None:
    """Rows and columns of seven in place of a 7×7 (figure 6)."""
    entry = draft.last
    double: Steps = [(inner, 1), (inner, _COLUMN7), (inner, _ROW7), (inner, _COLUMN7), (192, _ROW7)]
    branches = [
        _add_branch(draft, f"{prefix}.branch1", entry, [(192, 1)]),
        _add_branch(
            draft, f"{prefix}.branch2", entry, [(inner, 1), (inner, _ROW7), (192, _COLUMN7)]
        ),
        _add_branch(draft, f"{prefix}.branch3", entry, double),
        _add_pooled(draft, f"{prefix}.branch4", entry, 192),
    ]
    draft.add(f"{prefix}.concat", "concat", *branches)


def _add_figure7(draft: GraphDraft, prefix: str) -> None:
    """Rows and columns of three side by side (figure 7)."""
    entry = draft.last
    branches = [_add_branch(draft, f"{prefix}.branch1", entry, [(320, 1)])]
    for number, steps in ((2, [(384, 1)]), (3, [(448, 1), (384, 3)])):
        branch = f"{prefix}.branch{number}"
        fork = _add_branch(draft, branch, entry, steps)
        row = _add_branch(draft, f"{branch}.row", fork, [(384, _ROW3)])
        column = _add_branch(draft, f"{branch}.column", fork, [(384, _COLUMN3)])
        branches += [row, column]
    branches.append(_add_pooled(draft, f"{prefix}.branch4", entry, 192))
    draft.add(f"{prefix}.concat", "concat", *branches)


def _add_halving(
    draft: GraphDraft,
    prefix: str,
    short: Steps,
    long: Steps,
) -> None:
    """Two branches that end with stride 2, beside a pool (figure 10)."""
    entry = draft.last
    branches = [
        _add_branch(draft, f"{prefix}.branch1", entry, short, halving=True),
        _add_branch(draft, f"{prefix}.branch2", entry, long, halving=True),
        draft.add(f"{prefix}.pool", "max_pool2d", entry, kernel=3, stride=2),
    ]
    draft.add(f"{prefix}.concat", "concat", *branches)


def _add_pooled(draft: GraphDraft, name: str, source: str, channels: int) -> str:
    draft.add(f"{name}.pool", "avg_pool2d", source, kernel=3, stride=1, padding=1)
    return add_conv(draft, f"{name}.conv1", channels, 1)


def _add_branch(
    draft: GraphDraft,
    name: str,
    source: str,
    steps: Steps,
    *,
    halving: bool = False,
) -> str:
    """Add the convolutions; all keep the image's size but the last of a halving branch."""
    for number, (channels, kernel) in enumerate(steps, 1):
        last = halving and number == len(steps)
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        source = add_conv(
            draft,
            f"{name}.conv{number}",
            channels,
            kernel,
            stride=2 if last else 1,
            padding=0 if last else (height // 2, width // 2),
            source=source,
        )
    return source


_PAPER = "Szegedy et al.: Rethinking the Inception Architecture for Computer Vision"

MODELS = {
    "inception_v3": Model(build=inception_v3_graph, examples="images", source=_PAPER, year=2016)
}
