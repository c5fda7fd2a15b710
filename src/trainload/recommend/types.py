"""What a recommendation is made of: plans, demands, choices, rejections, doubts; values alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainload.predict.money import Cost, Emission, Lacking
from trainload.predict.transfer import WITHIN, Tier
from trainload.predict.types import Limit, Ranged

if TYPE_CHECKING:
    from trainload.estimate.memory.fit import Span
    from trainload.hardware.catalogue import Device

Objective = Literal["time", "money", "energy"]
OBJECTIVES: tuple[Objective, ...] = ("time", "money", "energy")
DemandName = Literal["deadline", "budget", "power", "memory", "price", "energy", "figures"]


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What the training must keep to, and what is best among what keeps to it."""

    objective: Objective
    deadline_h: float | None = None
    budget_usd: float | None = None
    max_power_w: float | None = None
    """Of all devices together, by what their boards may draw."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One whole way to do the training, with what is predicted of it."""

    device: Device
    count: int
    precision: str
    batch_size: int | None
    """Examples in a step over all devices; None where a script has its own."""
    portions: int
    """In which each device does its share, gradients added up; 1 without accumulation."""
    checkpointed: bool
    """Whether blocks are recomputed in the backward pass to save memory."""
    steps: int
    needed_bytes: Span | None
    """Of each device; of the host for a processor."""
    capacity_bytes: int | None
    running_out: float | None
    """The chance that a device runs out of memory; None where its memory is not known."""
    step_s: Ranged
    hours: Ranged
    power_w: Ranged | None
    energy_kwh: Ranged | None
    cost: Cost | Lacking
    emission: Emission | Lacking
    limit: Limit
    """What holds most of a step's time."""
    tier: Tier
    nearest: tuple[str, ...]
    """Calibrations it rests on, nearest first."""
    owned: bool = False

    @property
    def name(self) -> str:
        """How many of which device."""
        return self.device.name if self.count == 1 else f"{self.count} × {self.device.name}"

    @property
    def usd(self) -> Ranged | None:
        """Money of the whole training; None where no price is known."""
        if isinstance(self.cost, Lacking):
            return None
        return Ranged(value=self.cost.usd, low=self.cost.low_usd, high=self.cost.high_usd)

    @property
    def usd_per_h(self) -> float | None:
        """What an hour costs of all that is paid for; None where no price is known."""
        usd = self.usd
        return None if usd is None or not self.hours.value else usd.value / self.hours.value

    @property
    def instance(self) -> str | None:
        """What is rented: provider and name; None where nothing is."""
        if isinstance(self.cost, Lacking) or self.cost.offer is None:
            return None
        offer = self.cost.offer
        name = " ".join(filter(None, (offer.instance.provider, offer.instance.name)))
        return f"{offer.machines} × {name}" if offer.machines > 1 else name

    @property
    def board_w(self) -> float | None:
        """What the boards may draw together; None where no source states it."""
        power = self.device.value("power_w")
        return None if power is None else power * self.count

    def figure(self, objective: Objective) -> Ranged | None:
        """Hours, dollars or kilowatt-hours; None where it is not known."""
        if objective == "time":
            return self.hours
        return self.usd if objective == "money" else self.energy_kwh


@dataclass(frozen=True, kw_only=True)
class Unfit:
    """A candidate without a plan: it lacks memory, or figures to predict by."""

    device: Device
    count: int
    demand: DemandName
    reason: str
    needed_bytes: int | None = None
    """The least that was found, with every means that saves memory."""
    capacity_bytes: int | None = None

    @property
    def name(self) -> str:
        """How many of which device."""
        return self.device.name if self.count == 1 else f"{self.count} × {self.device.name}"


@dataclass(frozen=True, kw_only=True)
class Miss:
    """A demand that a plan does not keep to."""

    demand: DemandName
    reason: str
    value: float | None = None
    limit: float | None = None

    @property
    def ratio(self) -> float:
        """How many times the limit; infinite where either is not known or the limit is 0."""
        if self.value is None or self.limit is None or self.limit <= 0:
            return math.inf
        return self.value / self.limit


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A plan that keeps to every demand."""

    plan: Plan
    on_front: bool
    """No other choice is as good in time, money and energy and better in one."""
    deadline_chance: float | None
    """That it keeps to the deadline, by its range; None without one."""
    budget_chance: float | None
    others: tuple[Plan, ...] = ()
    """Further ways on the same devices, next best first."""


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A candidate that is no choice, and why."""

    device: Device
    count: int
    reason: str
    misses: tuple[Miss, ...]
    plan: Plan | None = None
    """The way that came nearest; None where there is none."""

    @property
    def name(self) -> str:
        """How many of which device."""
        return self.device.name if self.count == 1 else f"{self.count} × {self.device.name}"


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A choice whose range overlaps the winner's."""

    plan: Plan
    chance: float
    """That it is the better one after all."""


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """Whether the first choice is told apart from the others, and what would tell."""

    decided: bool
    rivals: tuple[Rival, ...]
    measurement: str | None
    """Which measurement would decide; None where it is decided."""


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """What comes nearest to demands that nothing keeps to."""

    name: str
    plan: Plan | None
    missed_by: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Choices, best first; with nothing that keeps to the demands, what comes nearest."""

    demand: Demand
    choices: tuple[Choice, ...]
    rejected: tuple[Rejection, ...]
    why: tuple[str, ...]
    changes: tuple[str, ...]
    """What would make another one the first."""
    doubt: Doubt | None
    nearest: tuple[Nearest, ...]

    @property
    def winner(self) -> Plan | None:
        """The first choice; None where there is none."""
        return self.choices[0].plan if self.choices else None


def spread_of(figure: Ranged) -> float:
    """The standard deviation of a figure's logarithm, by its range."""
    if figure.value <= 0 or figure.high <= figure.value:
        return 0.0
    return math.log(figure.high / figure.value) / WITHIN


def chance_within(figure: Ranged, limit: float) -> float:
    """That a log-normal figure lies within a limit."""
    if limit <= 0:
        return 1.0 if figure.value <= 0 else 0.0
    spread = spread_of(figure)
    if figure.value <= 0 or spread <= 0:
        return 1.0 if figure.value <= limit else 0.0
    return 0.5 * math.erfc(-math.log(limit / figure.value) / spread / math.sqrt(2))
