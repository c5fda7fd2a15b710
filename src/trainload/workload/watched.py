"""A training that runs in the user's own process, as a workload; nothing of it is known here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class WatchedWorkload:
    """What is trained, by the name and the settings its author gives."""

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> str:
        """What the run is called after."""
        return self.name

    @property
    def epochs(self) -> None:
        """Unknown: the program decides."""
        return
