"""What a section of the report may look at: one run, what was found in it, and where it stands."""

from dataclasses import dataclass

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RunLayers
from trainload.record import Manifest, Run
from trainload.report.run.plots import RunPlots


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run on the page."""

    run: Run
    summary: RunSummary
    plots: RunPlots
    anchor: str
    """Beginning of every `id` of this run; its plots are `ANCHOR-plot-N`."""
    layers: RunLayers | None
    """The attribution; None for a run without one."""

    @property
    def manifest(self) -> Manifest:
        """What `run.json` says."""
        return self.run.manifest
