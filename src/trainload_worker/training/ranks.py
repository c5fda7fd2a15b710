"""What is different where several processes train one model, in any framework; joins nobody."""

from __future__ import annotations

from trainload_worker.protocol.spec import TrainSpec

_NORMED_ROWS = 2
"""Batch norm cannot stand on one value."""


def dropout_seed(spec: TrainSpec) -> int:
    """The seed of dropout; each rank has its own, the first that of a process alone."""
    rank = 0 if spec.rank is None else spec.rank.number
    return (spec.seeds.weights + 15_485_863 * rank) % 2**31


def count_visited(spec: TrainSpec, train_rows: int) -> int:
    """How many training rows an epoch visits: all, but a last batch too small for batch norm.

    Each rank's share of it needs two rows; without batch norm one row is enough for all.
    """
    batch_size, ranks = spec.training.batch_size, 1 if spec.rank is None else spec.rank.count
    if not has_batch_norm(spec) or not 1 < batch_size < train_rows:
        return train_rows
    last = train_rows % batch_size
    return train_rows - last if 0 < last < _NORMED_ROWS * ranks else train_rows


def has_batch_norm(spec: TrainSpec) -> bool:
    """Whether a layer's values depend on the other rows of its process."""
    return any(layer.kind == "batch_norm" for layer in spec.graph.layers)


def rank_notes(spec: TrainSpec) -> list[str]:
    """Why losses are not those of one process with the whole batch; empty where they are."""
    if spec.rank is None:
        return []
    notes = []
    if has_batch_norm(spec):
        rows = spec.training.batch_size // spec.rank.count
        notes.append(f"batch norm takes its statistics from each process's own {rows} rows")
    if any(layer.kind == "dropout" for layer in spec.graph.layers):
        notes.append("dropout is drawn in each process by a seed of its own")
    return notes
