"""A network on a spatial accelerator, by dataflow: what `trainload dataflow` asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainload.errors import UsageError

if TYPE_CHECKING:
    from trainload.estimate.dataflow.answer import DataflowEstimate

PUBLISHED = "the published AlexNet"
MOST_IMAGES = 10**6


def dataflow(
    model: str | None,
    *,
    batch_size: int = 16,
    elements: int | None = None,
    register_bytes: int | None = None,
    buffer_bytes: int | None = None,
    energy: Mapping[str, float] | None = None,
    **options: Any,
) -> DataflowEstimate:
    """Energy and data movement of a built-in model's layers under each dataflow.

    Without a model, of the layers of the published comparison. UsageError where the model has no
    convolution and no fully connected layer.
    """
    from trainload.estimate.dataflow.accelerator import change_accelerator, load_accelerator
    from trainload.estimate.dataflow.answer import estimate_dataflows
    from trainload.estimate.dataflow.shapes import graph_shapes, published_shapes
    from trainload.workload import build_model, find_model

    if not 1 <= batch_size <= MOST_IMAGES:
        raise UsageError(f"a batch of {batch_size}: give 1 to {MOST_IMAGES:,}")
    hardware = change_accelerator(
        load_accelerator(),
        elements=elements,
        register_bytes=register_bytes,
        buffer_bytes=buffer_bytes,
        energy=energy,
    )
    if model is None:
        return estimate_dataflows(PUBLISHED, published_shapes(batch_size), batch_size, hardware)
    graph = build_model(model, find_model(model).options(**options))
    layers = list(graph_shapes(graph, batch_size))
    if not layers:
        raise UsageError(f"{model} has no conv2d or linear layer, and dataflows are told of those")
    return estimate_dataflows(model, layers, batch_size, hardware)
