"""The kinds of file that can be imported: one reader each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from trainload.integrations.imports.edge_results import read_edge_results
from trainload.integrations.imports.runs import ImportedRun, ImportOptions

Reader = Callable[[Sequence[Path], ImportOptions], Iterator[ImportedRun]]

KINDS: Mapping[str, Reader] = {
    "edge-results": read_edge_results,
}
"""By the word that `trainload import` takes."""
