"""What a plan costs: whole instances by the hour, or the electricity of what one has already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainload.predict.money import Cost, Lacking, rent

if TYPE_CHECKING:
    from trainload.api.predicting.costs import Terms
    from trainload.predict.types import Ranged


def cost_of(
    device: str,
    count: int,
    hours: Ranged,
    energy_kwh: Ranged | None,
    terms: Terms,
    *,
    owned: bool,
) -> Cost | Lacking:
    """The money of a plan; Lacking says which price is not known."""
    if not owned:
        return rent(
            device, count, hours, terms.prices, market=terms.market, provider=terms.provider
        )
    rate = terms.prices.electricity
    if rate is None or energy_kwh is None:
        what = "its energy" if rate is not None else "what electricity costs"
        return Lacking(reason=f"of what one has only electricity is paid, and {what} is not known")
    return Cost(
        usd=energy_kwh.value * rate.usd_per_kwh,
        low_usd=energy_kwh.low * rate.usd_per_kwh,
        high_usd=energy_kwh.high * rate.usd_per_kwh,
        basis=f"electricity at {rate.usd_per_kwh:g} USD/kWh ({rate.origin.source}); it is yours",
    )
