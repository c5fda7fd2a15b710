"""The types of prices: instances of clouds, devices bought, electricity; each with its origin."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Who says so, when, and what its licence is."""

    source: str
    date: str
    """Year, month or day, in ISO form."""
    licence: str


@dataclass(frozen=True, kw_only=True)
class Instance:
    """What a cloud sells by the hour: a whole machine with so many devices of one kind."""

    provider: str
    name: str | None
    """None where the provider has no name for it."""
    devices: tuple[str, ...]
    """Keys of the catalogue that it may have; more than one where the source does not tell them
    apart, as an A100 of SXM or PCIe."""
    count: int
    on_demand_usd_per_h: float | None
    spot_usd_per_h: float | None
    origin: Origin
    region: str | None = None
    """None where the source does not state it."""


@dataclass(frozen=True, kw_only=True)
class Purchase:
    """What one device cost."""

    device: str
    usd: float
    date: str
    """When that was its price."""
    origin: Origin


@dataclass(frozen=True, kw_only=True)
class Electricity:
    """What a kilowatt-hour costs."""

    usd_per_kwh: float
    origin: Origin


@dataclass(frozen=True, kw_only=True)
class Prices:
    """Every price known; empty where there are none."""

    instances: tuple[Instance, ...] = ()
    purchases: tuple[Purchase, ...] = ()
    electricity: Electricity | None = None
    """None: none was found with a licence; the user states it."""
