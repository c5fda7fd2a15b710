"""Recommendations asked for in Python: two functions, and what they answer.

Traces and predicts through the other rooms, trains where a trial is asked for, prints nothing.
"""

from trainload.api.recommending.asking import recommend
from trainload.api.recommending.here import HereAdvice, recommend_here
from trainload.api.recommending.result import Recommended

__all__ = ["HereAdvice", "Recommended", "recommend", "recommend_here"]
