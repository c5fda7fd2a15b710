"""Recurrent networks: a language model, and a family by layers and hidden units."""

from dataclasses import dataclass
from typing import Annotated

from trainload.checked import Bounds
from trainload.workload.graph.draft import GraphDraft
from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.model import Model
from trainload.workload.zoo.options import Classes, Rate, Width

Steps = Annotated[int, Bounds(low=1, high=10**6)]
Layers = Annotated[int, Bounds(low=1, high=1000)]
Vocabulary = Annotated[int, Bounds(low=2, high=10**7)]


@dataclass(frozen=True, kw_only=True)
class LstmLmOptions:
    """Tokens in, scores of the next token out; the defaults are the paper's medium model."""

    vocabulary: Vocabulary = 10_000
    steps: Steps = 35
    """Tokens in one example."""
    layers: Layers = 2
    hidden: Width = 650
    """Width of the embedding as well."""
    dropout: Rate = 0.5


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    """Sequences of vectors in, classes out; for sweeps over depth, width and length."""

    inputs: Width = 75
    """Width of the vector at each step."""
    steps: Steps = 32
    layers: Layers = 2
    hidden: Width = 128
    dropout: Rate = 0.0
    classes: Classes = 10


def lstm_lm_graph(options: LstmLmOptions) -> LayerGraph:
    """A two-layer LSTM language model (Zaremba, Sutskever, Vinyals 2014, section 4.1)."""
    draft = GraphDraft((options.steps,), dtype="int64")
    draft.add("embedding", "embedding", vocabulary=options.vocabulary, width=options.hidden)
    draft.add_dropout("dropout1", options.dropout)
    # With a single layer there is no place between layers.
    between = options.dropout if options.layers > 1 else 0.0
    draft.add("lstm", "lstm", layers=options.layers, hidden=options.hidden, dropout=between)
    draft.add_dropout("dropout2", options.dropout)
    draft.add("output", "linear_over_time", units=options.vocabulary)
    return draft.finish("lstm_lm")


def recurrent_graph(options: RecurrentOptions) -> LayerGraph:
    """LSTM layers (Hochreiter, Schmidhuber 1997), read at the last step and classified."""
    draft = GraphDraft((options.steps, options.inputs))
    between = options.dropout if options.layers > 1 else 0.0
    draft.add("lstm", "lstm", layers=options.layers, hidden=options.hidden, dropout=between)
    draft.add("last", "last_step")
    draft.add_dropout("dropout", options.dropout)
    draft.add("output", "linear", units=options.classes)
    return draft.finish("recurrent")


MODELS = {
    "lstm_lm": Model(
        build=lstm_lm_graph,
        examples="tokens",
        source="Zaremba, Sutskever, Vinyals: Recurrent Neural Network Regularization",
        year=2014,
    ),
    "recurrent": Model(
        build=recurrent_graph,
        examples="sequences",
        source="Hochreiter, Schmidhuber: Long Short-Term Memory",
        year=1997,
        family=True,
    ),
}
