"""The kinds of file that can be imported: one reader each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from trainload.integrations.imports.codecarbon import read_codecarbon
from trainload.integrations.imports.edge_log import read_edge_log
from trainload.integrations.imports.edge_results import read_edge_results
from trainload.integrations.imports.kineto import read_kineto
from trainload.integrations.imports.load_lists import read_load_lists
from trainload.integrations.imports.mlflow import read_mlflow
from trainload.integrations.imports.runs import ImportedRun, ImportOptions
from trainload.integrations.imports.smi import read_smi
from trainload.integrations.imports.tegrastats import read_tegrastats

Reader = Callable[[Sequence[Path], ImportOptions], Iterator[ImportedRun]]

KINDS: Mapping[str, Reader] = {
    "tegrastats": read_tegrastats,
    "edge-training-log": read_edge_log,
    "edge-results": read_edge_results,
    "load-lists": read_load_lists,
    "kineto": read_kineto,
    "nvidia-smi": read_smi,
    "codecarbon": read_codecarbon,
    "mlflow": read_mlflow,
}
"""By the word that `trainload import` takes."""
