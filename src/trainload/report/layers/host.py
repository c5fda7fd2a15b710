"""What the host does between operations, as rows of text: by whom, then by line of the source.

The same rows for the terminal, the page and its icicle; times come ready from `analyse`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trainload.analyse.attribution.host_times import host_groups
from trainload.analyse.attribution.types import HostPart, HostTime, RankLayers
from trainload.report.layers.wording import share_of
from trainload.report.wording import clean_text
from trainload.units import render_percent, render_seconds

HOST_TITLES = ("who, and where in the source", "preparing", "between calls", "share", "stacks")
MOST_GROUPS, MOST_PLACES = 6, 2
"""On a terminal: groups, and places of each."""
LEAST_FRACTION = 0.001
"""Of the step: a place that takes less is folded into the last line of its group."""


@dataclass(frozen=True, kw_only=True)
class HostRow:
    """One line: a group, or a place within the group above it."""

    label: str
    place: bool
    preparing_s: float
    """While the device stood idle (on a CPU: between operations) inside of torch's ranges."""
    between_s: float
    samples: int

    def cells(self, rank: RankLayers) -> tuple[str, ...]:
        """The figures in words, in the order of the titles, without the label."""
        time_s = self.preparing_s + self.between_s
        return (
            render_seconds(self.preparing_s),
            render_seconds(self.between_s),
            render_percent(share_of(time_s, rank)),
            f"{self.samples:,}",
        )


def host_rows(
    rank: RankLayers,
    *,
    groups: int = MOST_GROUPS,
    places: int = MOST_PLACES,
    part: HostPart | None = None,
) -> list[HostRow]:
    """The longest groups with the longest places of each; what is left over in lines of its own.

    With `part` only what belongs to that part of the step.
    """
    times = [one for one in rank.host if part is None or one.part == part]
    found = host_groups(times)
    rows: list[HostRow] = []
    for what, package, members in found[:groups]:
        rows.append(_row(group_label(what, package), members, place=False))
        by_place = _by_place(members)
        least_s = LEAST_FRACTION * rank.step_s
        kept = [p for p in by_place[:places] if sum(one.time_s for one in p[1]) >= least_s]
        rows += [_row(label, where, place=True) for label, where in kept]
        rest = [one for _, where in by_place[len(kept) :] for one in where]
        if rest:
            rows.append(_row(f"… {len(by_place) - len(kept):,} more places", rest, place=True))
    others = [one for _, _, members in found[groups:] for one in members]
    if others:
        rows.append(_row(f"… {len(found) - groups:,} more", others, place=False))
    return rows


def group_label(what: str, package: str) -> str:
    """Who a group is: what it does, and the package where that says more."""
    told = what if what in (package, "script") else f"{what} · {package}"
    return clean_text(told)


def place_label(one: HostTime) -> str:
    """A place in the source."""
    return clean_text(f"{one.place} {one.function}")


def _by_place(members: Iterable[HostTime]) -> list[tuple[str, list[HostTime]]]:
    places: dict[str, list[HostTime]] = {}
    for one in members:
        places.setdefault(place_label(one), []).append(one)
    return sorted(places.items(), key=lambda item: -sum(one.time_s for one in item[1]))


def _row(label: str, members: Sequence[HostTime], *, place: bool) -> HostRow:
    return HostRow(
        label=label,
        place=place,
        preparing_s=sum(one.time_s for one in members if one.part == "idle: host"),
        between_s=sum(one.time_s for one in members if one.part == "python"),
        samples=sum(one.samples for one in members),
    )
