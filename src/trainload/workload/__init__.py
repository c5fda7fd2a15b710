"""What is trained: specs, the layer graph, the zoo of models, data sets.

Framework-free and standard library only: both wings build and read workloads.
"""

from trainload.workload.assemble import (
    assemble_workload,
    parse_words,
    settable_names,
    split_words,
)
from trainload.workload.data.choose import split_word
from trainload.workload.data.datasets import keypoint_data, scan_csv
from trainload.workload.data.remote import FetchProgress, fetch_remote, is_address
from trainload.workload.graph.layers import (
    Layer,
    LayerGraph,
    build_graph,
    graph_from_json,
    graph_from_spec,
)
from trainload.workload.masking import Masking, open_masking
from trainload.workload.places import cache_folder
from trainload.workload.recorded import (
    RecordedGraph,
    RecordedScript,
    RecordedWatch,
    RecordedWorkload,
    recorded_workload,
    refit_data,
    workload_from_record,
)
from trainload.workload.script import ScriptWorkload, looks_like_script, script_workload
from trainload.workload.spec import Optimizer, Seeds, Training, Workload
from trainload.workload.watched import WatchedWorkload
from trainload.workload.zoo.mlp import MlpOptions, mlp_graph
from trainload.workload.zoo.models import (
    MODELS,
    Model,
    build_model,
    find_model,
    input_words,
    parse_options,
)
from trainload_worker.protocol.data import CsvData, Data, KeypointData
from trainload_worker.protocol.graph import LayerSpec

__all__ = [
    "MODELS",
    "CsvData",
    "Data",
    "FetchProgress",
    "KeypointData",
    "Layer",
    "LayerGraph",
    "LayerSpec",
    "Masking",
    "MlpOptions",
    "Model",
    "Optimizer",
    "RecordedGraph",
    "RecordedScript",
    "RecordedWatch",
    "RecordedWorkload",
    "ScriptWorkload",
    "Seeds",
    "Training",
    "WatchedWorkload",
    "Workload",
    "assemble_workload",
    "build_graph",
    "build_model",
    "cache_folder",
    "fetch_remote",
    "find_model",
    "graph_from_json",
    "graph_from_spec",
    "input_words",
    "is_address",
    "keypoint_data",
    "looks_like_script",
    "mlp_graph",
    "open_masking",
    "parse_options",
    "parse_words",
    "recorded_workload",
    "refit_data",
    "scan_csv",
    "script_workload",
    "settable_names",
    "split_word",
    "split_words",
    "workload_from_record",
]
