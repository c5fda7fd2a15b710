"""The one bar of the first screen: shares of a whole, few enough to tell apart.

Chooses and names; the times come from `analyse`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainload.analyse import RunSummary
from trainload.analyse.attribution.types import RankLayers
from trainload.report.layers.wording import ordered_parts
from trainload.report.wording import clean_text
from trainload_worker.protocol.events import COMPILE, RECOMPILE

MOST_SHARES = 6
LEAST_SHARE = 0.02
"""What is smaller joins the rest."""
FILLS = "█▓▒░▚▖·"
"""One for each share and the rest: told apart without colour."""
_REST = "the rest"
_PARTS: Mapping[str, tuple[str, str]] = {
    "forward": ("forward", "blue"),
    "backward": ("backward", "dark_orange"),
    "update": ("update", "green"),
    "loss": ("loss", "magenta"),
    "input": ("waiting for data", "yellow"),
    "idle: input": ("waiting for data", "yellow"),
    "copy": ("copies", "cyan"),
    "communication": ("exchange between processes", "red"),
    "script": ("script's own operations", "bright_blue"),
    "idle: host": ("idle, host preparing", "bright_black"),
    "idle: synchronise": ("waiting for the GPU", "bright_red"),
    "python": ("Python outside the framework", "bright_yellow"),
    "remainder": ("unexplained", "dim"),
}
_ON_CPU = {"idle: host": "between operations", "idle: synchronise": "synchronising"}
_PHASES: Mapping[str, tuple[str, str]] = {
    "prepare": ("preparing data", "yellow"),
    "build": ("building the model", "magenta"),
    "validate": ("validation", "cyan"),
    "validation": ("validation", "cyan"),
    "checkpoint": ("saving", "bright_blue"),
    "save": ("saving", "bright_blue"),
}
_WITHIN = (COMPILE, RECOMPILE)
"""Phases that lie within the training or the preparation."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """One stretch of the bar: what it is, in plain words, and how much of the whole."""

    words: str
    fraction: float
    style: str


def step_shares(rank: RankLayers) -> tuple[Share, ...]:
    """Where one step goes; empty where it took no time."""
    on_cpu = rank.device.startswith("cpu")
    times: dict[tuple[str, str], float] = {}
    for part, time_s in ordered_parts(rank.parts):
        words, style = _PARTS.get(part, (clean_text(part), "white"))
        words = _ON_CPU.get(part, words) if on_cpu else words
        times[words, style] = times.get((words, style), 0.0) + time_s
    return _shares(times.items(), rank.step_s)


def run_shares(summary: RunSummary) -> tuple[Share, ...]:
    """Where the run's time went, for one whose steps were not traced.

    Empty without steps, and where parts ran beside each other, as in several processes.
    """
    whole_s = summary.duration_s
    if not whole_s or not summary.steps:
        return ()
    times = [(("training", "blue"), summary.training_s)]
    times += [
        (_PHASES.get(phase.name, (clean_text(phase.name), "white")), phase.total_s)
        for phase in summary.phases
        if phase.name not in _WITHIN
    ]
    rest_s = whole_s - sum(time_s for _, time_s in times)
    if rest_s < 0:
        return ()
    return _shares([*times, (("starting, ending and between", "bright_black"), rest_s)], whole_s)


def _shares(times: Iterable[tuple[tuple[str, str], float]], whole_s: float) -> tuple[Share, ...]:
    if whole_s <= 0:
        return ()
    found = [Share(words=w, fraction=t / whole_s, style=style) for (w, style), t in times]
    if not all(0 <= share.fraction < math.inf for share in found):
        return ()  # of a record that is not sound
    large = sorted(found, key=lambda share: -share.fraction)[:MOST_SHARES]
    shown = [share for share in found if share in large and share.fraction >= LEAST_SHARE]
    rest = sum(share.fraction for share in found) - sum(share.fraction for share in shown)
    if rest > 0.005:
        shown.append(Share(words=_REST, fraction=rest, style="dim"))
    return tuple(shown)


def bar_cells(shares: Sequence[Share], width: int) -> list[int]:
    """Cells of each share, summing to the width; one that is there has a cell at least."""
    whole = sum(share.fraction for share in shares)
    if not shares or whole <= 0 or width < len(shares):
        return [0] * len(shares)
    exact = [share.fraction / whole * width for share in shares]
    cells = [max(int(one), 1) for one in exact]
    while sum(cells) < width:
        at = max(range(len(cells)), key=lambda n: exact[n] - cells[n])
        cells[at] += 1
    while sum(cells) > width:
        at = max(range(len(cells)), key=lambda n: (cells[n] > 1, cells[n] - exact[n]))
        cells[at] -= 1
    return cells
