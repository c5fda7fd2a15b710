"""Whether somebody asks for a window now, by a file that the driver leaves; traces nothing."""

from __future__ import annotations

import os
import stat


class AskedWindow:
    """Looks for the file and takes it away: each one asks for one window."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self) -> bool:
        """Whether one is asked for; only a plain file of this process's own user counts."""
        try:
            found = os.lstat(self._path)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                return False
            os.unlink(self._path)
        except OSError:
            return False  # as a rule it is not there
        return True
