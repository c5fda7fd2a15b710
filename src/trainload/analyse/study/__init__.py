"""Studies in tables: cells, effects, interactions, the best; frames in, frames out.

No file and no drawing here; polars, numpy and scipy are imported when a function is called.
"""

from trainload.analyse.study.best import best_table, higher_is_better
from trainload.analyse.study.cells import cell_table
from trainload.analyse.study.effects import effect_table
from trainload.analyse.study.figures import figures_of
from trainload.analyse.study.interactions import interaction_table
from trainload.analyse.study.overview import Finding, StudyOverview, change_of, overview_of
from trainload.analyse.study.tidy import Measured, PlannedCell, TidyStudy, tidy_study

__all__ = [
    "Finding",
    "Measured",
    "PlannedCell",
    "StudyOverview",
    "TidyStudy",
    "best_table",
    "cell_table",
    "change_of",
    "effect_table",
    "figures_of",
    "higher_is_better",
    "interaction_table",
    "overview_of",
    "tidy_study",
]
