"""Estimates of one step on several devices, best first; values and how they show themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainload.record.estimates import ESTIMATE_FORMAT

if TYPE_CHECKING:
    from trainload.api.estimating.result import Estimate
    from trainload.report.memory.ranking import DeviceRow

_ORDER = ("fits", "too close to call", "not known", "does not fit")


@dataclass(frozen=True, kw_only=True, repr=False)
class Estimates:
    """The same step on several devices: those that it fits first, then by the room left."""

    estimates: tuple[Estimate, ...]
    """Best first, each as if its device alone had been asked about."""

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def __getitem__(self, at: int) -> Estimate:
        return self.estimates[at]

    @property
    def fitting(self) -> tuple[Estimate, ...]:
        """Those that are said to fit."""
        return tuple(one for one in self.estimates if one.fits)

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload estimate --device a,b --json`: `devices`, best first.

        Each has its `name`, its `rank`, the bytes left and in `estimate` the document of one
        device.
        """
        devices = [
            {
                "rank": rank,
                "name": _name(one),
                "verdict": one.verdict,
                "fits": one.fits,
                "left_bytes": left_bytes(one),
                "estimate": one.to_json(),
            }
            for rank, one in enumerate(self.estimates, start=1)
        ]
        return {"format": ESTIMATE_FORMAT, "origin": "estimate", "devices": devices}

    def to_text(self) -> str:
        """What `trainload estimate --device a,b` prints."""
        from trainload.report.memory.ranking import render_ranking

        return render_ranking(self.estimates[0].head, [device_row(one) for one in self.estimates])

    def __repr__(self) -> str:
        """Each device with its verdict."""
        said = ", ".join(f"{_name(one)} {one.verdict}" for one in self.estimates)
        return f"<Estimates {self.estimates[0].title}: {said}>"

    def _repr_html_(self) -> str:
        from trainload.report.cards import render_ranking_card

        return render_ranking_card(
            self.estimates[0].head, [device_row(one) for one in self.estimates]
        )


def rank_estimates(estimates: Sequence[Estimate]) -> Estimates:
    """Those that fit first, then by the room left; equals stay in the order asked for."""

    def place(one: Estimate) -> tuple[int, bool, int]:
        left = left_bytes(one)
        return _ORDER.index(one.verdict), left is None, -(left or 0)

    return Estimates(estimates=tuple(sorted(estimates, key=place)))


def left_bytes(one: Estimate) -> int | None:
    """What the device offers less what the step needs; None where one of them is not known."""
    if one.needed_bytes is None or one.capacity_bytes is None:
        return None
    return one.capacity_bytes - one.needed_bytes.value_bytes


def _name(one: Estimate) -> str:
    assert one.device is not None, "several devices have names"
    return one.device.name


def device_row(one: Estimate) -> DeviceRow:
    """One device of the ranking, for whoever draws it."""
    from trainload.report.memory.ranking import DeviceRow

    needed = one.needed_bytes or one.ram_growth_bytes
    return DeviceRow(
        name=_name(one),
        verdict=one.verdict,
        needed_bytes=None if needed is None else needed.value_bytes,
        capacity_bytes=one.capacity_bytes,
        left_bytes=left_bytes(one),
        running_out=one.running_out,
        step_s=None if one.time is None else one.time.step_s,
        missing=one.missing,
        notes=one.memory.notes,
    )
