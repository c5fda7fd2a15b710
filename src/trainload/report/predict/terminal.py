"""A predicted training as text, and several devices as one ranked table; computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from trainload.columns import render_columns
from trainload.predict.money import Lacking
from trainload.report.memory.wording import NO_LAYER, render_head, render_verdict
from trainload.report.wording import clean_text
from trainload.units import MISSING, render_percent, render_seconds

if TYPE_CHECKING:
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.estimate.memory.fit import Verdict
    from trainload.hardware.catalogue import Device
    from trainload.predict.money import Cost, Emission
    from trainload.predict.types import Ranged, StepPrediction

    class Length(Protocol):
        """How long a training is."""

        @property
        def steps(self) -> int: ...
        @property
        def epochs(self) -> int | None: ...

    class Predicted(Protocol):
        """What is drawn of a prediction."""

        @property
        def title(self) -> str: ...
        @property
        def choice(self) -> StepChoice | None: ...
        @property
        def precision(self) -> str | None: ...
        @property
        def device(self) -> Device: ...
        @property
        def count(self) -> int: ...
        @property
        def length(self) -> Length | None: ...
        @property
        def memory(self) -> MemoryAnswer: ...
        @property
        def verdict(self) -> Verdict: ...
        @property
        def step(self) -> StepPrediction | None: ...
        @property
        def missing(self) -> str | None: ...
        @property
        def warning(self) -> str | None: ...
        @property
        def examples_per_s(self) -> Ranged | None: ...
        @property
        def training_s(self) -> Ranged | None: ...
        @property
        def training_energy_j(self) -> Ranged | None: ...
        @property
        def cost(self) -> Cost | Lacking | None: ...
        @property
        def emission(self) -> Emission | Lacking | None: ...


TITLES = (
    "device", "", "a step", "range", "examples/s", "training", "energy", "money", "held by", "tier",
)  # fmt: skip
LAYER_TITLES = ("layer", "predicted", "share", "forward", "backward", "update", "held by")
_LIMITS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "launch": "launching operations",
    "input": "input",
}


def render_prediction(done: Predicted, layers: int) -> str:
    """Whether it fits first, then time, training, energy, what they rest on, and layers."""
    lines = [_fits(done), render_title(done), ""]
    step = done.step
    if step is None:
        return "\n".join([*lines, f"no time is predicted: {done.missing}"])
    lines.append(f"a step     {_seconds(step.step_s)}")
    if done.examples_per_s is not None:
        lines.append(f"throughput {_plain(done.examples_per_s, 'examples/s')}")
    if done.training_s is not None and done.length is not None:
        epochs = "" if done.length.epochs is None else f", {done.length.epochs:,} epochs"
        lines.append(
            f"training   {_seconds(done.training_s)} ({done.length.steps:,} steps{epochs})"
        )
    if step.energy_j is None or step.power_w is None:
        lines.append(f"energy     missing: the entry of {done.device.name} states no power")
    else:
        lines.append(f"energy     {_plain(step.energy_j, 'J')} a step, {_plain(step.power_w, 'W')}")
    if done.training_energy_j is not None:
        lines.append(f"           {_plain(done.training_energy_j.times(1 / 3.6e6), 'kWh')} in all")
    lines += [*_costs(done), ""]
    lines += _rests_on(done, step)
    if layers:
        lines += ["", *_layers(step, layers)]
    lines += [f"  {clean_text(note)}" for note in done.memory.notes]
    return "\n".join(lines)


def render_predictions(found: Sequence[Predicted]) -> str:
    """What is trained, and a table, fastest first."""
    fitting = [one.device.name for one in found if one.verdict == "fits"]
    said = f"fits {', '.join(fitting)}" if fitting else f"surely fits none of {len(found)} devices"
    lines = [said, render_title(found[0], with_device=False), ""]
    lines.append(render_columns(TITLES, [render_cells(one) for one in found], {2, 4, 6, 7}))
    missing = [one.missing for one in found if one.missing]
    lines += [f"  {one.device.name}: {one.missing}" for one in found if one.missing]
    why = dict.fromkeys(one.step.why for one in found if one.step is not None)
    for text in why:
        names = [one.device.name for one in found if one.step and one.step.why == text]
        lines.append(f"  {', '.join(names)}: {text}")
    lines += [f"  warning: {text}" for text in dict.fromkeys(one.warning for one in found) if text]
    reasons = dict.fromkeys(one.cost.reason for one in found if isinstance(one.cost, Lacking))
    lines += [f"  money is missing: {text}" for text in reasons if text not in missing]
    lines.append("  ranges hold the truth in 19 of 20 cases")
    return "\n".join([*lines, "  all about one of them: --device with its name alone"])


def _costs(done: Predicted) -> list[str]:
    """Money and emissions with what they rest on, or why they are missing."""
    cost, emission, lines = done.cost, done.emission, []
    if isinstance(cost, Lacking):
        lines.append(f"money      missing: {cost.reason}")
    elif cost is not None:
        lines.append(
            f"money      {_number(cost.usd)} USD "
            f"({_number(cost.low_usd)} to {_number(cost.high_usd)}): {cost.basis}"
        )
    if isinstance(emission, Lacking):
        lines.append(f"CO2e       missing: {emission.reason}")
    elif emission is not None:
        lines.append(
            f"CO2e       {_number(emission.kgco2e)} kg "
            f"({_number(emission.low_kgco2e)} to {_number(emission.high_kgco2e)}): {emission.basis}"
        )
    return lines


def _fits(done: Predicted) -> str:
    return render_verdict(done.memory) or f"not known whether it fits: {done.memory.missing}"


def render_title(done: Predicted, *, with_device: bool = True) -> str:
    """What is trained, and on what, in one line."""
    head = render_head(done.title, done.choice)
    if done.precision == "tf32":
        head = head.replace("float32", "tf32", 1)
    if not with_device:
        return head
    many = "" if done.count == 1 else f"{done.count} × "
    return f"{head}, on {many}{done.device.title}"


def _rests_on(done: Predicted, step: StepPrediction) -> list[str]:
    nearest = ", ".join(step.nearest) or "none"
    lines = [
        f"tier: {step.tier}; nearest calibrations: {nearest}",
        f"  {step.why}; ranges hold the truth in {step.level:.0%} of cases",
        f"{step.bound}-bound: the device computes {render_seconds(step.device_s)}, "
        f"the host dispatches in {render_seconds(step.host_s)}; "
        f"most time is held by {_LIMITS[step.limit]}",
    ]
    if done.warning is not None:
        lines.insert(2, f"  warning: {done.warning}")
    if done.count > 1:
        lines.append(f"  exchange of gradients adds {render_seconds(step.exchange_s)} a step")
    if step.utilisation is not None:
        lines.append(
            f"utilisation {render_percent(step.utilisation)} of the peak in {step.utilisation_of}"
        )
    return lines


def layer_cells(step: StepPrediction, count: int) -> list[tuple[str, ...]]:
    """The longest layers as rows of `LAYER_TITLES`."""
    return [
        (
            layer.name or NO_LAYER,
            render_seconds(layer.total_s),
            render_percent(layer.total_s / step.device_s if step.device_s else None),
            render_seconds(layer.forward_s),
            render_seconds(layer.backward_s),
            render_seconds(layer.update_s),
            _LIMITS[layer.limit],
        )
        for layer in step.layers[:count]
    ]


def _layers(step: StepPrediction, count: int) -> list[str]:
    rows = layer_cells(step, count)
    said = f"the {len(rows)} longest layers of {len(step.layers)}, time on the device"
    return [said, render_columns(LAYER_TITLES, rows, {1, 2, 3, 4, 5})]


def render_cells(one: Predicted) -> tuple[str, ...]:
    """The cells of one device, under TITLES."""
    step = one.step
    if step is None:
        return (one.device.name, one.verdict, *[MISSING] * (len(TITLES) - 2))
    speed, energy, cost = one.examples_per_s, one.training_energy_j, one.cost
    joules = MISSING if step.energy_j is None else f"{_number(step.energy_j.value)} J"
    return (
        one.device.name,
        one.verdict,
        render_seconds(step.step_s.value),
        f"{render_seconds(step.step_s.low)} to {render_seconds(step.step_s.high)}",
        MISSING if speed is None else _number(speed.value),
        MISSING if one.training_s is None else render_seconds(one.training_s.value),
        joules if energy is None else f"{_number(energy.value / 3.6e6)} kWh",
        MISSING if cost is None or isinstance(cost, Lacking) else f"{_number(cost.usd)} USD",
        _LIMITS[step.limit],
        step.tier,
    )


def _seconds(one: Ranged) -> str:
    return f"{render_seconds(one.value)} ({render_seconds(one.low)} to {render_seconds(one.high)})"


def _plain(one: Ranged, unit: str) -> str:
    return f"{_number(one.value)} {unit} ({_number(one.low)} to {_number(one.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
