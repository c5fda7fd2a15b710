"""trainload: what a neural-network training costs, where the cost goes, which choice is best.

Importing it loads no framework and opens no device.
"""

import importlib
from typing import TYPE_CHECKING, Any

from trainload._version import __version__

if TYPE_CHECKING:
    from trainload.integrations.watch import watch

__all__ = ["__version__", "watch"]


def __getattr__(name: str) -> Any:
    """`watch` is loaded when first used: importing trainload stays light."""
    if name != "watch":
        raise AttributeError(f"module 'trainload' has no attribute {name!r}")
    return importlib.import_module("trainload.integrations.watch").watch
