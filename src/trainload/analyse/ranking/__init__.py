"""Which level of a factor is best, cell by cell: tables for any factor, metric and setting.

Takes runs as figures, gives frames; opens no file and draws nothing.
"""

from trainload.analyse.ranking.energy import check_energy
from trainload.analyse.ranking.groups import Groups, RankedRun, group_runs
from trainload.analyse.ranking.pareto import pareto_fronts
from trainload.analyse.ranking.rank import Ranking, rank_runs

__all__ = [
    "Groups",
    "RankedRun",
    "Ranking",
    "check_energy",
    "group_runs",
    "pareto_fronts",
    "rank_runs",
]
