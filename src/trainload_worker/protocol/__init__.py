"""The language both halves speak: specification, events, outcomes as frozen types.

Standard library only, old enough for Python 3.8; the only part of the worker that trainload imports.
"""
