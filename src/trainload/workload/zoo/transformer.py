"""A small transformer encoder that classifies rows of tokens."""

from dataclasses import dataclass
from typing import Annotated

from trainload.checked import Bounds
from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import Classes, Rate, Width
from trainload.workload.zoo.recurrent import Layers, Steps, Vocabulary


@dataclass(frozen=True, kw_only=True)
class TransformerOptions:
    """Tokens in, classes out; the width is a quarter of the paper's base model."""

    vocabulary: Vocabulary = 10_000
    steps: Steps = 128
    """Tokens in one example."""
    layers: Layers = 4
    width: Width = 128
    heads: Annotated[int, Bounds(low=1, high=10**4)] = 4
    feedforward: Annotated[int, Bounds(low=1, high=10**6)] = 512
    dropout: Rate = 0.1
    classes: Classes = 10


def transformer_encoder_graph(options: TransformerOptions) -> LayerGraph:
    """The encoder of Vaswani et al. 2017, section 3, under a classifier of the mean over time.

    Norms stand after the sums and positions are learned (the paper's table 3, row E). Dropout
    acts on each sub-layer's output and on the embedding, which is not scaled by its width.
    """
    draft = GraphDraft((options.steps,), dtype="int64")
    draft.add("embedding", "embedding", vocabulary=options.vocabulary, width=options.width)
    draft.add("position", "position_embedding")
    draft.add_dropout("dropout", options.dropout)
    for number in range(1, options.layers + 1):
        _add_layer(draft, f"layer{number}", options)
    draft.add("mean", "mean_over_time")
    draft.add("output", "linear", units=options.classes)
    return draft.finish("transformer_encoder")


def _add_layer(draft: GraphDraft, prefix: str, options: TransformerOptions) -> None:
    entry = draft.last
    draft.add(f"{prefix}.attention", "self_attention", heads=options.heads)
    draft.add_dropout(f"{prefix}.dropout1", options.dropout)
    draft.add(f"{prefix}.add1", "add", entry, draft.last)
    entry = draft.add(f"{prefix}.norm1", "layer_norm")
    draft.add(f"{prefix}.linear1", "linear_over_time", units=options.feedforward)
    draft.add(f"{prefix}.relu", "relu")
    draft.add(f"{prefix}.linear2", "linear_over_time", units=options.width)
    draft.add_dropout(f"{prefix}.dropout2", options.dropout)
    draft.add(f"{prefix}.add2", "add", entry, draft.last)
    draft.add(f"{prefix}.norm2", "layer_norm")


_PAPER = "Vaswani et al.: Attention Is All You Need"

MODELS = {
    "transformer_encoder": Model(
        build=transformer_encoder_graph, examples="tokens", source=_PAPER, year=2017
    )
}
