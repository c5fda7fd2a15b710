"""Two sets of runs against each other: metrics, circumstances, layers; one workload over time.

Values in, values out: no file is opened and nothing drawn here.
"""

from trainload.analyse.compare.against import compare_sides
from trainload.analyse.compare.cells import identity_of
from trainload.analyse.compare.facts import surroundings_of
from trainload.analyse.compare.layers import parts_of
from trainload.analyse.compare.parts import NOT_EXPLAINED
from trainload.analyse.compare.spread import Known
from trainload.analyse.compare.values import (
    LEVEL,
    MARGIN,
    ComparedRun,
    Comparison,
    FactDifference,
    FactDifferences,
    LayerDifference,
    MetricDifference,
    PartKey,
    Side,
    Verdict,
)

__all__ = [
    "LEVEL",
    "MARGIN",
    "NOT_EXPLAINED",
    "ComparedRun",
    "Comparison",
    "FactDifference",
    "FactDifferences",
    "Known",
    "LayerDifference",
    "MetricDifference",
    "PartKey",
    "Side",
    "Verdict",
    "compare_sides",
    "identity_of",
    "parts_of",
    "surroundings_of",
]
