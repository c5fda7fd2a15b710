"""The words that text and page of a recommendation share; computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trainload.predict.money import Lacking
from trainload.recommend.wording import hours_words, number_words, usd_words
from trainload.units import MISSING, render_bytes, render_percent

if TYPE_CHECKING:
    from trainload.predict.types import Ranged
    from trainload.recommend.types import Choice, Plan, Recommendation

    class RecommendedLike(Protocol):
        """What is drawn of a recommendation."""

        @property
        def title(self) -> str: ...
        @property
        def optimizer(self) -> str | None: ...
        @property
        def batch_size(self) -> int | None: ...
        @property
        def examples(self) -> int | None: ...
        @property
        def epochs(self) -> int | None: ...
        @property
        def steps(self) -> int | None: ...
        @property
        def found(self) -> Recommendation: ...
        @property
        def unknown(self) -> tuple[tuple[str, str], ...]: ...
        @property
        def notes(self) -> tuple[str, ...]: ...


TITLES = (
    "choice", "instance", "precision", "batch", "memory", "runs out", "time", "energy", "money",
    "CO2e", "",
)  # fmt: skip
NUMBERS = (3, 4, 5, 6, 7, 8, 9)
RANGES = "(…) holds the truth in 19 of 20 cases; * no other choice is better in time, money, energy"


def render_head(done: RecommendedLike) -> str:
    """What is trained, and for how long."""
    words = [done.title]
    if done.batch_size is not None:
        words.append(f"batch {done.batch_size:,} over all devices")
    if done.optimizer is not None:
        words.append(done.optimizer)
    if done.steps is not None:
        words.append(f"{done.steps:,} steps")
    elif done.examples is not None:
        turns = done.epochs or 1
        words.append(f"{done.examples:,} examples" + (f" × {turns:,} epochs" if turns > 1 else ""))
    return ", ".join(words)


def render_answer(done: RecommendedLike) -> str:
    """The first choice in one line, or that there is none and what comes nearest."""
    winner = done.found.winner
    if winner is None:
        nearest = done.found.nearest
        if not nearest and not done.found.rejected:
            return "nothing can be recommended: the catalogue holds no candidate"
        if not nearest:
            return "nothing keeps to the demands, and by how much is not known"
        first = nearest[0]
        return (
            f"nothing keeps to the demands; nearest is {first.name}: {'; '.join(first.missed_by)}"
        )
    parts = [ranged_hours(winner.hours)]
    if winner.usd is not None:
        parts.append(usd_words(winner.usd.value))
    if winner.energy_kwh is not None:
        parts.append(f"{number_words(winner.energy_kwh.value)} kWh")
    where = f" ({winner.instance})" if winner.instance else ""
    return f"take {winner.name}{where} in {plan_words(winner)}: {', '.join(parts)}"


def plan_words(plan: Plan) -> str:
    """Precision, batch and what saves memory."""
    words = [plan.precision if plan.batch_size is not None else "its own precision"]
    if plan.batch_size is not None:
        words.append(f"batch {batch_words(plan)}")
    if plan.checkpointed:
        words.append("blocks recomputed")
    return ", ".join(words)


def batch_words(plan: Plan) -> str:
    """Examples of a step, and how they are shared out."""
    if plan.batch_size is None:
        return MISSING
    words = f"{plan.batch_size:,}"
    if plan.count > 1:
        words += f" = {plan.count} × {-(-plan.batch_size // plan.count):,}"
    return words if plan.portions == 1 else f"{words} in {plan.portions} portions"


def ranged_hours(hours: Ranged) -> str:
    """A time and its range."""
    ends = f"{hours_words(hours.low)} to {hours_words(hours.high)}"
    return f"{hours_words(hours.value)} ({ends})"


def choice_cells(choice: Choice) -> tuple[str, ...]:
    """One row of the table."""
    plan = choice.plan
    energy, usd, emission = plan.energy_kwh, plan.usd, plan.emission
    needed = plan.needed_bytes
    return (
        plan.name,
        plan.instance or ("yours" if plan.owned else MISSING),
        plan.precision + (", recomputed" if plan.checkpointed else ""),
        batch_words(plan),
        MISSING if needed is None else render_bytes(needed.value_bytes),
        MISSING if plan.running_out is None else chance_words(plan.running_out),
        ranged_hours(plan.hours),
        MISSING if energy is None else _ranged(energy, "kWh"),
        MISSING
        if usd is None
        else f"{usd_words(usd.value)} ({number_words(usd.low)} to {number_words(usd.high)})",
        MISSING
        if isinstance(emission, Lacking)
        else f"{number_words(emission.kgco2e)} kg "
        f"({number_words(emission.low_kgco2e)} to {number_words(emission.high_kgco2e)})",
        "*" if choice.on_front else "",
    )


def chance_words(chance: float) -> str:
    """A chance in percent; the smallest as below one in a thousand."""
    return "< 0.1 %" if chance < 0.001 else render_percent(chance)


def doubt_words(done: RecommendedLike) -> str | None:
    """Whether the choice is decided, and what would decide it; None without choices."""
    doubt = done.found.doubt
    if doubt is None:
        return None
    if doubt.decided:
        return (
            "decided: no other range reaches the first one's"
            if len(done.found.choices) > 1
            else None
        )
    names = ", ".join(f"{one.plan.name} ({render_percent(one.chance, 0)})" for one in doubt.rivals)
    return (
        f"not decided: ranges overlap with {names}; in brackets the chance that it is the better "
        f"one. {doubt.measurement}"
    )


def _ranged(one: Ranged, unit: str) -> str:
    return f"{number_words(one.value)} {unit} ({number_words(one.low)} to {number_words(one.high)})"
