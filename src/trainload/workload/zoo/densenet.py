"""DenseNet: every layer of a block reads all layers before it."""

from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import ImageOptions

_GROWTH = 32
_BOTTLENECK = 4 * _GROWTH


def densenet121_graph(options: ImageOptions) -> LayerGraph:
    """DenseNet-121 (Huang, Liu, van der Maaten, Weinberger 2017, table 1), growth 32.

    With bottlenecks and a compression of 0.5 (the paper's DenseNet-BC).
    """
    draft = options.draft()
    draft.add("stem.conv", "conv2d", channels=64, kernel=7, stride=2, padding=3, bias=False)
    _add_norm_relu(draft, "stem", "")
    draft.add("stem.pool", "max_pool2d", kernel=3, stride=2, padding=1)
    channels = 64
    for number, depth in enumerate((6, 12, 24, 16), 1):
        if number > 1:
            channels //= 2
            prefix = f"transition{number - 1}"
            _add_norm_relu(draft, prefix, "")
            draft.add(f"{prefix}.conv", "conv2d", channels=channels, kernel=1, bias=False)
            draft.add(f"{prefix}.pool", "avg_pool2d", kernel=2, stride=2)
        _add_dense_block(draft, f"block{number}", depth)
        channels += depth * _GROWTH
    _add_norm_relu(draft, "head", "")
    draft.add("avgpool", "adaptive_avg_pool2d", size=1)
    draft.add("flatten", "flatten")
    draft.add("output", "linear", units=options.classes)
    return draft.finish("densenet121")


def _add_dense_block(draft: GraphDraft, prefix: str, depth: int) -> None:
    whole = draft.last
    for number in range(1, depth + 1):
        layer = f"{prefix}.layer{number}"
        _add_norm_relu(draft, layer, "1")
        draft.add(f"{layer}.conv1", "conv2d", channels=_BOTTLENECK, kernel=1, bias=False)
        _add_norm_relu(draft, layer, "2")
        new = draft.add(
            f"{layer}.conv2", "conv2d", channels=_GROWTH, kernel=3, padding=1, bias=False
        )
        whole = draft.add(f"{layer}.concat", "concat", whole, new)


def _add_norm_relu(draft: GraphDraft, prefix: str, number: str) -> None:
    draft.add(f"{prefix}.norm{number}", "batch_norm")
    draft.add(f"{prefix}.relu{number}", "relu")


_PAPER = "Huang et al.: Densely Connected Convolutional Networks"

MODELS = {
    "densenet121": Model(build=densenet121_graph, examples="images", source=_PAPER, year=2017)
}
