"""A run while it goes on, in values to draw: curves of bounded length, figures, layers so far.

Takes what `record` reads and draws nothing; the standard library alone, but for traced windows.
"""

from trainload.analyse.live.curve import TimeCurve
from trainload.analyse.live.state import LiveState
from trainload.analyse.live.view import (
    LiveChart,
    LiveLayers,
    LiveMark,
    LiveSeries,
    LiveView,
)

__all__ = [
    "LiveChart",
    "LiveLayers",
    "LiveMark",
    "LiveSeries",
    "LiveState",
    "LiveView",
    "TimeCurve",
]
