# Tells what a script can know of itself.
"""Its own words."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass


@dataclass
class Own:
    number: int = 1


print(__name__, __doc__, __spec__, __package__, sys.argv[1:], Own())
print(sorted(name for name in globals() if name.startswith("__")))
print(sys.modules["__main__"].Own is Own, inspect.getsource(Own).count("\n"))
print(__file__.rpartition("/")[2], sys.path[0] == __file__.rpartition("/")[0])
