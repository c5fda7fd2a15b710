"""Claims of published studies beside what a study measured here: confirmed, contradicted, or open.

Claims are data, one file a study; judged by the intervals of docs/statistics.md. Runs nothing.
"""

from trainload.analyse.reproduce.beside import Beside, side_by_side
from trainload.analyse.reproduce.claims import REPRODUCED, Claim, ClaimFile, load_claims
from trainload.analyse.reproduce.evidence import Evidence
from trainload.analyse.reproduce.judge import Compared, Judged, Verdict, judge_claims
from trainload.analyse.reproduce.layers import layer_figures
from trainload.analyse.reproduce.observer import Observed, observe
from trainload.analyse.reproduce.readings import Reading

__all__ = [
    "REPRODUCED",
    "Beside",
    "Claim",
    "ClaimFile",
    "Compared",
    "Evidence",
    "Judged",
    "Observed",
    "Reading",
    "Verdict",
    "judge_claims",
    "layer_figures",
    "load_claims",
    "observe",
    "side_by_side",
]
