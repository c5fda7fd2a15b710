"""trainload: what a neural-network training costs, where the cost goes, which choice is best.

Importing it loads no framework and opens no device.
"""

from trainload._version import __version__

__all__ = ["__version__"]
