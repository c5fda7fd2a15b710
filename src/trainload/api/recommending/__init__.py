"""Recommendations asked for in Python: one function, and what it answers.

Traces and predicts through the other rooms; trains nothing and prints nothing.
"""

from trainload.api.recommending.asking import recommend
from trainload.api.recommending.result import Recommended

__all__ = ["Recommended", "recommend"]
