"""The language both halves speak: specification, events, outcomes as frozen types.

Standard library only, for Python 3.8 too; the only part of the worker that trainload imports.
"""
