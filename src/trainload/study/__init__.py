"""Studies: factors, levels and repetitions, each cell realised by runs.

From a file to cells, from cells to runs that survive whatever happens, and when there are enough.
"""

from trainload.study.cells import Cell
from trainload.study.file import StudyFile, load_study, parse_study, shipped_studies
from trainload.study.plan import StudyPlan, plan_study
from trainload.study.run_file import is_run_file, load_run_file, run_file_keywords
from trainload.study.runner import SessionResult, run_cells
from trainload.study.status import StudyStatus, read_status

__all__ = [
    "Cell",
    "SessionResult",
    "StudyFile",
    "StudyPlan",
    "StudyStatus",
    "is_run_file",
    "load_run_file",
    "load_study",
    "parse_study",
    "plan_study",
    "read_status",
    "run_cells",
    "run_file_keywords",
    "shipped_studies",
]
