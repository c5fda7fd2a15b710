"""The run directory: schema, append, seal, read, migrate; sole owner of its file names.

Writing needs the standard library alone; tables need polars, imported when one is read.
"""

from trainload.record.append import LineAppender
from trainload.record.directory import (
    DirectoryLock,
    RunDirectory,
    close_if_abandoned,
    create_run_directory,
    fields_from_facts,
)
from trainload.record.facts import WorkerFacts, load_facts, load_other_ranks, rank_warnings
from trainload.record.layer_table import load_layer_table, save_layer_table
from trainload.record.lines import LineReader, read_tail
from trainload.record.manifest import (
    FORMAT,
    Clock,
    Manifest,
    Outcome,
    load_manifest,
    parse_manifest,
    save_manifest,
)
from trainload.record.read import Run, open_run
from trainload.record.seal import seal_run
from trainload.record.tables import SAMPLE_HEAD

__all__ = [
    "FORMAT",
    "SAMPLE_HEAD",
    "Clock",
    "DirectoryLock",
    "LineAppender",
    "LineReader",
    "Manifest",
    "Outcome",
    "Run",
    "RunDirectory",
    "WorkerFacts",
    "close_if_abandoned",
    "create_run_directory",
    "fields_from_facts",
    "load_facts",
    "load_layer_table",
    "load_manifest",
    "load_other_ranks",
    "open_run",
    "parse_manifest",
    "rank_warnings",
    "read_tail",
    "save_layer_table",
    "save_manifest",
    "seal_run",
]
