"""Attribution: where each instant of a traced step went, by layer and phase, with a remainder.

Reads Kineto's traces, windows that the worker labelled, and runs; draws nothing.
"""

from trainload.analyse.attribution.advice import advise
from trainload.analyse.attribution.layers import collect_trace, load_run_layers
from trainload.analyse.attribution.trace import TraceReader, open_trace
from trainload.analyse.attribution.types import (
    ROW_COLUMNS,
    Advice,
    Cause,
    EnergyShare,
    Kind,
    LayerMemory,
    LayerNode,
    Phase,
    RankLayers,
    RunLayers,
    Topic,
    WindowCost,
)

__all__ = [
    "ROW_COLUMNS",
    "Advice",
    "Cause",
    "EnergyShare",
    "Kind",
    "LayerMemory",
    "LayerNode",
    "Phase",
    "RankLayers",
    "RunLayers",
    "Topic",
    "TraceReader",
    "WindowCost",
    "advise",
    "collect_trace",
    "load_run_layers",
    "open_trace",
]
