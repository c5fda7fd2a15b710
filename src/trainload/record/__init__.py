"""The run directory: schema, append, seal, read, migrate; sole owner of its file names.

Writing needs the standard library alone; tables need polars, imported when one is read.
"""

from trainload.record.append import LineAppender
from trainload.record.directory import (
    DirectoryLock,
    RunDirectory,
    close_if_abandoned,
    create_run_directory,
    is_held,
)
from trainload.record.facts import WorkerFacts, load_facts, load_other_ranks, rank_warnings
from trainload.record.layer_table import load_layer_table, save_layer_table
from trainload.record.lines import EventReader, LineReader, read_events, read_tail
from trainload.record.manifest import (
    FORMAT,
    FORMAT_MINOR,
    Manifest,
    load_manifest,
    parse_manifest,
    save_manifest,
)
from trainload.record.parts import (
    AskedSetting,
    Block,
    Clock,
    GivenFigure,
    Imported,
    LayerTracing,
    OverheadMeasurement,
    Processes,
    RecordedMark,
    RecordedMeter,
    RecordedQuantity,
    RecordedRank,
    RecordedSetting,
    SamplerUse,
    StudyCell,
)
from trainload.record.read import Run, open_run
from trainload.record.seal import seal_run
from trainload.record.tables import SAMPLE_HEAD
from trainload_worker.protocol.outcomes import Outcome

__all__ = [
    "FORMAT",
    "FORMAT_MINOR",
    "SAMPLE_HEAD",
    "AskedSetting",
    "Block",
    "Clock",
    "DirectoryLock",
    "EventReader",
    "GivenFigure",
    "Imported",
    "LayerTracing",
    "LineAppender",
    "LineReader",
    "Manifest",
    "Outcome",
    "OverheadMeasurement",
    "Processes",
    "RecordedMark",
    "RecordedMeter",
    "RecordedQuantity",
    "RecordedRank",
    "RecordedSetting",
    "Run",
    "RunDirectory",
    "SamplerUse",
    "StudyCell",
    "WorkerFacts",
    "close_if_abandoned",
    "create_run_directory",
    "is_held",
    "load_facts",
    "load_layer_table",
    "load_manifest",
    "load_other_ranks",
    "open_run",
    "parse_manifest",
    "rank_warnings",
    "read_events",
    "read_tail",
    "save_layer_table",
    "save_manifest",
    "seal_run",
]
