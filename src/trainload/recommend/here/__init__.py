"""How to set a training on the machine one has: suggestions, each with its gain where it is known.

Pure; a gain that nobody measured or predicted is missing, and the suggestion says so and why.
"""

from trainload.recommend.here.facts import (
    HereFacts,
    Level,
    PastRun,
    Suggestion,
    Topic,
    Trial,
    Tried,
    Verdict,
)
from trainload.recommend.here.reach import Reach, reach_of
from trainload.recommend.here.suggesting import suggest_here
from trainload.recommend.here.verdicts import Difference, apply_past, judge_trial, not_measured

__all__ = [
    "Difference",
    "HereFacts",
    "Level",
    "PastRun",
    "Reach",
    "Suggestion",
    "Topic",
    "Trial",
    "Tried",
    "Verdict",
    "apply_past",
    "judge_trial",
    "not_measured",
    "reach_of",
    "suggest_here",
]
