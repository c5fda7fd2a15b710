"""Optuna: what each trial costs, told to the study, and trials that cost too much pruned.

    study.optimize(measured(objective, limit_s=600), n_trials=50)

Every trial is a run of its own. Its seconds, joules and money become the trial's user attributes;
`trial.should_prune()` also says yes once one of the limits is passed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from optuna import TrialPruned

from trainload.errors import UsageError
from trainload.integrations.following import Following, fails_open

_LOOK_S = 2.0
"""Seconds between two looks at the meters' readings while a trial runs."""
_HOUR_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class TrialCost:
    """What a trial has cost; None where nothing told it."""

    time_s: float
    energy_j: float | None = None
    money: float | None = None
    """In the currency of the price per hour."""


@dataclass(frozen=True, kw_only=True)
class _Limits:
    limit_s: float | None
    limit_j: float | None
    limit_money: float | None
    price_per_hour: float | None

    def passed(self, cost: TrialCost) -> str | None:
        """Which limit was passed, in words; None of none, and of what is not known."""
        asked = (
            ("time", cost.time_s, self.limit_s, "s"),
            ("energy", cost.energy_j, self.limit_j, "J"),
            ("money", cost.money, self.limit_money, ""),
        )
        for what, value, limit, unit in asked:
            if value is not None and limit is not None and value > limit:
                return f"{what} {value:.4g} {unit} above {limit:.4g} {unit}".replace("  ", " ")
        return None


def measured(
    objective: Callable[[Any], Any],
    *,
    limit_s: float | None = None,
    limit_energy_j: float | None = None,
    limit_money: float | None = None,
    price_per_hour: float | None = None,
    name: str = "trial",
    out: str | Path = "runs",
    **options: Any,
) -> Callable[[Any], Any]:
    """The same objective with each trial recorded as `NAME-NUMBER` and its cost reported.

    User attributes: `trainload_run`, `trainload_time_s`, `trainload_energy_j` where a meter reads
    it, `trainload_money` with a price per hour, `trainload_pruned_by`. Options are those of
    `trainload.watch`. UsageError for a limit of money without a price.
    """
    if limit_money is not None and price_per_hour is None:
        raise UsageError("limit_money needs price_per_hour, in the same currency")
    limits = _Limits(
        limit_s=limit_s,
        limit_j=limit_energy_j,
        limit_money=limit_money,
        price_per_hour=price_per_hour,
    )

    @functools.wraps(objective)
    def costed(trial: Any) -> Any:
        following = Following(f"{name}-{trial.number}", out, **options)
        following.begin(config=trial.params)
        meter = _Meter(following, limits)
        _join(trial, meter)
        error: BaseException | None = None
        try:
            return objective(trial)
        except TrialPruned:
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            following.end(error)
            _report(trial, meter, following.path)

    return costed


class _Meter:
    """What a trial has cost so far."""

    def __init__(self, following: Following, limits: _Limits) -> None:
        self._following, self._limits = following, limits
        self._begun_s = monotonic()
        self._looked_s = float("-inf")
        self._energy_j: float | None = None
        self.pruned_by: str | None = None

    def cost(self) -> TrialCost:
        """Time and money to now; energy as last looked at."""
        time_s = monotonic() - self._begun_s
        price = self._limits.price_per_hour
        money = None if price is None else price * time_s / _HOUR_S
        return TrialCost(time_s=time_s, energy_j=self._energy_j, money=money)

    def is_over(self) -> bool:
        """Whether a limit is passed; readings are looked at where energy is limited."""
        if self._limits.limit_j is not None and monotonic() - self._looked_s > _LOOK_S:
            self.look()
            self._looked_s = monotonic()
        self.pruned_by = self._limits.passed(self.cost())
        return self.pruned_by is not None

    @fails_open
    def look(self) -> None:
        """Reads the energy from the record: of the first source that tells it, as in tables."""
        from trainload.analyse import summarise_run
        from trainload.record import open_run

        path = self._following.path
        if path is not None:
            told = summarise_run(open_run(path, seal=False)).energy
            self._energy_j = next((one.energy_j for one in told if one.energy_j is not None), None)


def _join(trial: Any, meter: _Meter) -> None:
    """The trial's own question also asks for the cost."""
    ask = trial.should_prune

    def should_prune() -> bool:
        return meter.is_over() or bool(ask())

    trial.should_prune = should_prune


@fails_open
def _report(trial: Any, meter: _Meter, path: Path | None) -> None:
    if path is not None:
        meter.look()
        trial.set_user_attr("trainload_run", str(path))
    cost = meter.cost()
    told = {
        "time_s": cost.time_s,
        "energy_j": cost.energy_j,
        "money": cost.money,
        "pruned_by": meter.pruned_by,
    }
    for key, value in told.items():
        if value is not None:
            trial.set_user_attr(f"trainload_{key}", value)
