"""Stepwise migrations of run.json: each brings one format to the next.

Format 1 is the first; its directories stand under tests/golden and stay readable.
"""

from collections.abc import Callable
from typing import Any

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
