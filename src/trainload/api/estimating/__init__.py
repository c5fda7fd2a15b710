"""Estimates of training steps, asked for in Python: one function, and what it answers.

Traces, tries and measures through the other rooms; prints nothing.
"""

from trainload.api.estimating.asking import LIMIT_S, estimate
from trainload.api.estimating.ranked import Estimates
from trainload.api.estimating.result import Estimate
from trainload.api.estimating.study import estimate_study

__all__ = ["LIMIT_S", "Estimate", "Estimates", "estimate", "estimate_study"]
