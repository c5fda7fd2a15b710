"""Money and emissions of a predicted training: prices and places found, arithmetic left to predict.

Reads price and carbon files; no price or place is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainload.errors import UsageError
from trainload.predict.money import Lacking, Market, emit, rent

if TYPE_CHECKING:
    from trainload.api.predicting.result import Prediction
    from trainload.hardware.carbon import CarbonPlace
    from trainload.hardware.prices import Prices

NO_LENGTH = "the training's length is not known; name --steps, or --examples and --epochs"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which terms a training is paid for."""

    prices: Prices
    market: Market
    provider: str | None
    place: CarbonPlace | None
    pue: float | None


def find_terms(
    *,
    prices: str | Path | None,
    market: str,
    provider: str | None,
    place: str | None,
    pue: float | None,
) -> Terms:
    """The terms by their words; HardwareFileError or UsageError where one is none."""
    from trainload.hardware.carbon import find_place
    from trainload.hardware.prices import load_prices

    if market not in ("on demand", "spot"):
        raise UsageError(f"unknown market {market!r}: on demand or spot")
    if pue is not None and not 1 <= pue <= 10:
        raise UsageError(f"a PUE of {pue:g}: it is 1 or more, and at most 10 here")
    return Terms(
        prices=load_prices(None if prices is None else Path(prices)),
        market="spot" if market == "spot" else "on demand",
        provider=provider,
        place=None if place is None else find_place(place),
        pue=pue,
    )


def with_costs(done: Prediction, terms: Terms) -> Prediction:
    """The prediction with its money and emissions, each figure or the reason why it is missing."""
    if done.training_s is None:
        reason = Lacking(reason=NO_LENGTH if done.missing is None else done.missing)
        return replace(done, cost=reason, emission=reason)
    return replace(
        done,
        cost=rent(
            done.device.name,
            done.count,
            done.training_s.times(1 / 3600),
            terms.prices,
            market=terms.market,
            provider=terms.provider,
        ),
        emission=emit(done.training_energy_j, terms.place, pue=terms.pue),
    )
