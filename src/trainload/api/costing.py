"""What a run cost in money, from its time, its energy and dated prices; words for people.

Rents by whole instances where a price of its GPUs is known, else counts its electricity.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.hardware.naming import match_device
from trainload.hardware.prices import Prices, load_prices
from trainload.predict.money import Cost, Lacking, rent

if TYPE_CHECKING:
    from trainload.analyse import RunSummary
    from trainload.record import Manifest

_J_PER_KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Currency:
    """What money is shown in; prices themselves are in US dollars."""

    code: str = "USD"
    per_usd: float = 1.0
    """How much of it one US dollar is."""


@dataclass(frozen=True, kw_only=True)
class _Exactly:
    """A measured figure: its range is itself."""

    value: float

    @property
    def low(self) -> float:
        return self.value

    @property
    def high(self) -> float:
        return self.value


@dataclass(frozen=True, kw_only=True)
class RunMoney:
    """What a run cost, in words, or why that is not known; `known` tells which."""

    known: bool
    words: str
    """Short."""
    basis: str = ""
    """Whose prices, and of when."""

    @property
    def whole(self) -> str:
        """The amount and what it rests on."""
        return f"{self.words}; {self.basis}" if self.basis else self.words


def run_money(
    summary: RunSummary,
    manifest: Manifest,
    *,
    prices: Path | None = None,
    currency: Currency | None = None,
) -> RunMoney:
    """The rent of the run's GPUs for its whole time, else its electricity.

    HardwareFileError where the file of prices is none.
    """
    currency = currency if currency is not None else Currency()
    known = load_prices(prices)
    if summary.duration_s is None:
        return RunMoney(known=False, words="not known: the run has no end yet")
    cost = _rent(summary.duration_s, manifest, known)
    if isinstance(cost, Cost):
        return RunMoney(known=True, words=_rented(cost, currency), basis=cost.basis)
    return _electricity(summary, known, currency) or RunMoney(
        known=False, words=f"not known: {cost.reason}"
    )


def _rent(duration_s: float, manifest: Manifest, prices: Prices) -> Cost | Lacking:
    resolved = manifest.setting.resolved
    accelerators = resolved.accelerators if resolved is not None else ()
    names = {accelerator.name for accelerator in accelerators}
    if len(names) != 1:
        which = "no GPU was used" if not names else "its GPUs differ"
        return Lacking(reason=f"{which}, and no price of electricity or no energy is known")
    device = match_device(names.pop())
    if device is None:
        return Lacking(reason="its GPU is none of the catalogue; trainload devices lists them")
    return rent(device.name, len(accelerators), _Exactly(value=duration_s / 3600), prices)


def _electricity(summary: RunSummary, prices: Prices, currency: Currency) -> RunMoney | None:
    """What its energy cost; None without either. Sources may hold each other: the largest counts.

    A board's rails are parts of the board, a processor's cores part of its package.
    """
    energies = [source.energy_j for source in summary.energy if source.energy_j is not None]
    rate = prices.electricity
    if not energies or rate is None:
        return None
    usd = max(energies) / _J_PER_KWH * rate.usd_per_kwh
    return RunMoney(
        known=True,
        words=f"{_amount(usd, currency)} of electricity at {rate.usd_per_kwh:g} USD/kWh",
        basis=f"{rate.origin.source}, {rate.origin.date}",
    )


def _rented(cost: Cost, currency: Currency) -> str:
    assert cost.offer is not None, "what is rented is an offer"
    instance = cost.offer.instance
    name = " ".join(filter(None, (instance.provider, instance.name)))
    return (
        f"{_amount(cost.usd, currency)} to rent at {cost.offer.usd_per_h:.4g} USD/h "
        f"({name}, prices of {instance.origin.date})"
    )


def _amount(usd: float, currency: Currency) -> str:
    return f"{usd * currency.per_usd:.2g} {currency.code}"
