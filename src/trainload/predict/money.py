"""What a training of so many hours and joules costs, and what it emits; pure.

Clouds sell instances: who needs one device of eight pays for eight. A figure whose price, lifetime,
rate or place is not known is missing with the reason, never made up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, Protocol

from trainload.hardware.carbon import CarbonPlace
from trainload.hardware.prices import Instance, Origin, Prices, Purchase

Market = Literal["on demand", "spot"]
_J_PER_KWH = 3.6e6
_H_PER_YEAR = 8766.0


class Range(Protocol):
    """A figure and the range that holds the truth."""

    @property
    def value(self) -> float:
        """The figure itself."""
        ...

    @property
    def low(self) -> float:
        """The low end."""
        ...

    @property
    def high(self) -> float:
        """The high end."""
        ...


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """Why a figure is missing, and what would give it."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Offer:
    """Whole instances that have the devices asked for."""

    instance: Instance
    machines: int
    """More than one where no instance has so many devices: their link is not the predicted one."""
    market: Market
    usd_per_h: float
    """Of all machines."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Money with the range of the hours it rests on; prices themselves have none."""

    usd: float
    low_usd: float
    high_usd: float
    basis: str
    """What is paid for, in words, with source and date."""
    offer: Offer | None = None
    """None for devices that are bought."""


@dataclass(frozen=True, kw_only=True)
class Emission:
    """Greenhouse gases of the electricity, in kilograms of CO2 equivalents."""

    kgco2e: float
    low_kgco2e: float
    high_kgco2e: float
    basis: str
    pue: float | None
    """That of the place or the user; None counts the devices' energy alone."""


def list_offers(
    device: str,
    count: int,
    prices: Prices,
    *,
    market: Market = "on demand",
    provider: str | None = None,
    region: str | None = None,
) -> tuple[Offer, ...]:
    """Instances that have the device, cheapest first; those of several machines stand last.

    A region leaves out instances of another one, and those whose region is not stated.
    """
    found = []
    for instance in prices.instances:
        usd = instance.on_demand_usd_per_h if market == "on demand" else instance.spot_usd_per_h
        if device not in instance.devices or usd is None:
            continue
        if provider is not None and instance.provider.casefold() != provider.casefold():
            continue
        if region is not None and instance.region != region:
            continue
        machines = -(-count // instance.count)
        found.append(
            Offer(instance=instance, machines=machines, market=market, usd_per_h=machines * usd)
        )
    return tuple(sorted(found, key=lambda offer: (offer.machines > 1, offer.usd_per_h)))


def rent(
    device: str,
    count: int,
    hours: Range,
    prices: Prices,
    *,
    market: Market = "on demand",
    provider: str | None = None,
    region: str | None = None,
) -> Cost | Lacking:
    """The cheapest whole instances for so many hours; Lacking where nobody's price is known."""
    offers = list_offers(device, count, prices, market=market, provider=provider, region=region)
    if not offers:
        where = "".join(f" at {word}" for word in (provider, region) if word)
        return Lacking(
            reason=f"no price {market} of {device}{where} is known; give prices: --prices FILE"
        )
    return price_offer(offers[0], hours, offers)


def price_offer(offer: Offer, hours: Range, among: Sequence[Offer] = ()) -> Cost:
    """An offer for so many hours; the basis tells how it stands among others."""
    instance = offer.instance
    name = " ".join(filter(None, (instance.provider, instance.name)))
    machines = f"{offer.machines} × " if offer.machines > 1 else ""
    basis = (
        f"{machines}{name} with {instance.count} device{'s' if instance.count > 1 else ''}, "
        f"{offer.market}, {offer.usd_per_h:.4g} USD/h"
    )
    if len(among) > 1:
        middle = median(one.usd_per_h for one in among)
        basis += f", one of {len(among)} known with a median of {middle:.4g} USD/h"
    return Cost(
        usd=offer.usd_per_h * hours.value,
        low_usd=offer.usd_per_h * hours.low,
        high_usd=offer.usd_per_h * hours.high,
        basis=f"{basis} ({_credit(instance.origin)})",
        offer=offer,
    )


def buy(
    device: str,
    count: int,
    hours: Range,
    energy_j: Range | None,
    prices: Prices,
    *,
    lifetime_years: float | None = None,
    usd_per_kwh: float | None = None,
    pue: float | None = None,
) -> Cost | Lacking:
    """A device's price over the hours of its lifetime, and the electricity of this training.

    Lacking names what is not known: price, lifetime, energy or what electricity costs.
    """
    bought = _latest(device, prices.purchases)
    rate = usd_per_kwh
    if rate is None and prices.electricity is not None:
        rate = prices.electricity.usd_per_kwh
    if bought is None:
        return Lacking(reason=f"no purchase price of {device} is known; give it: --prices FILE")
    if lifetime_years is None or lifetime_years <= 0:
        return Lacking(reason="how many years the device serves is not known; it must be given")
    if energy_j is None:
        return Lacking(reason=f"the energy on {device} is not known, so neither its electricity")
    if rate is None:
        return Lacking(reason="what electricity costs is not known; give it: --prices FILE")
    per_h = count * bought.usd / (lifetime_years * _H_PER_YEAR)
    per_j = rate * (pue or 1.0) / _J_PER_KWH
    return Cost(
        usd=per_h * hours.value + per_j * energy_j.value,
        low_usd=per_h * hours.low + per_j * energy_j.low,
        high_usd=per_h * hours.high + per_j * energy_j.high,
        basis=(
            f"{count} × {bought.usd:,.0f} USD ({bought.date}) over {lifetime_years:g} years of "
            f"uninterrupted use, electricity at {rate:g} USD/kWh, {_pue_words(pue)} "
            f"({_credit(bought.origin)}); host, rack and staff are not in it"
        ),
    )


def emit(
    energy_j: Range | None, place: CarbonPlace | None, *, pue: float | None = None
) -> Emission | Lacking:
    """Emissions of the energy at a place; Lacking without energy or place."""
    if energy_j is None:
        return Lacking(reason="the energy is not known, so neither what it emits")
    if place is None:
        return Lacking(reason="where the electricity comes from is not known; name a place")
    used = place.pue if pue is None else pue
    per_j = place.gco2e_per_kwh * (used or 1.0) / 1000 / _J_PER_KWH
    return Emission(
        kgco2e=per_j * energy_j.value,
        low_kgco2e=per_j * energy_j.low,
        high_kgco2e=per_j * energy_j.high,
        basis=(
            f"{place.title}, {place.gco2e_per_kwh:g} gCO2e/kWh in {place.year}, {place.basis}; "
            f"{_pue_words(used)} ({place.source}, {place.licence})"
        ),
        pue=used,
    )


def _latest(device: str, purchases: Sequence[Purchase]) -> Purchase | None:
    of_device = [one for one in purchases if one.device == device]
    return max(of_device, key=lambda one: one.date, default=None)


def _pue_words(pue: float | None) -> str:
    return "PUE not counted" if pue is None else f"PUE {pue:g}"


def _credit(origin: Origin) -> str:
    return f"{origin.source}, {origin.date}, {origin.licence}"
