"""Generated examples of any shape for any model; describes them, the worker draws them."""

from trainload.workload.graph.layers import LayerGraph
from trainload.workload.zoo.models import Examples
from trainload_worker.protocol.data import Form, SyntheticData

LEAST_ROWS = 1280
"""Examples unless told: with a fifth for validation and batches of 32, 32 steps an epoch."""


def synthetic_data(
    graph: LayerGraph, examples: Examples, rows: int | None, validation_fraction: float
) -> SyntheticData:
    """Examples that fit this graph; at least two for each class unless `rows` says otherwise."""
    classes = graph.output_shape[-1]
    vocabulary = None
    form: Form = "vectors"
    if examples == "images":
        form = "images"
    elif examples == "tokens":
        form = "token_stream" if tells_next_token(graph) else "tokens"
        vocabulary = vocabulary_of(graph)
    least = LEAST_ROWS if form == "token_stream" else max(LEAST_ROWS, 2 * classes)
    return SyntheticData(
        form=form,
        shape=graph.input_shape,
        rows=rows if rows is not None else least,
        classes=classes,
        vocabulary=vocabulary,
        validation_fraction=validation_fraction,
    )


def tells_next_token(graph: LayerGraph) -> bool:
    """Whether the output has scores at every step of a row, and not once for the row."""
    return len(graph.output_shape) == 2


def vocabulary_of(graph: LayerGraph) -> int | None:
    """How many tokens the model knows; None where it takes no tokens."""
    for layer in graph.layers:
        if layer.kind == "embedding":
            return int(layer.attributes["vocabulary"])
    return None
