"""What a prediction of a training says; values and how they show themselves.

Computed by others: nothing is traced or measured here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainload.estimate.counts.answer import StepChoice
    from trainload.estimate.memory.answer import MemoryAnswer
    from trainload.estimate.memory.fit import Verdict
    from trainload.hardware.catalogue import Device
    from trainload.predict.money import Cost, Emission, Lacking
    from trainload.predict.transfer import Tier
    from trainload.predict.types import Ranged, StepPrediction

PREDICTION_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long a training is."""

    steps: int
    epochs: int | None
    """None where steps were named."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction:
    """Time, throughput and energy of a training on one kind of device, each with its range.

    A figure is None where it is not known, and `missing` says why.
    """

    title: str
    choice: StepChoice | None
    """Batch of each device, precision and optimizer; None for a script, which brings its own."""
    precision: str | None
    device: Device
    count: int
    length: Length | None
    memory: MemoryAnswer
    step: StepPrediction | None
    missing: str | None
    warning: str | None = None
    """What kept the machine busy while steps were measured on it; None where nothing did."""
    cost: Cost | Lacking | None = None
    """Of the whole training, by instance; the reason where it is not known."""
    emission: Emission | Lacking | None = None
    """Of the whole training's electricity; the reason where it is not known."""

    @property
    def verdict(self) -> Verdict:
        """fits, does not fit, too close to call, or not known."""
        return "not known" if self.memory.estimate is None else self.memory.estimate.verdict

    @property
    def fits(self) -> bool | None:
        """The verdict as yes or no; None where it is neither."""
        return {"fits": True, "does not fit": False}.get(self.verdict)

    @property
    def step_s(self) -> Ranged | None:
        """Seconds of one step."""
        return None if self.step is None else self.step.step_s

    @property
    def tier(self) -> Tier | None:
        """What the figures rest on: measured here, calibrated, datasheet."""
        return None if self.step is None else self.step.tier

    @property
    def examples_per_s(self) -> Ranged | None:
        """Of all devices together; None for a script, whose batch is its own."""
        if self.step is None or self.choice is None or self.choice.batch_size is None:
            return None
        return self.step.step_s.over(self.choice.batch_size * self.count)

    @property
    def energy_j(self) -> Ranged | None:
        """Of one step on all devices."""
        return None if self.step is None else self.step.energy_j

    @property
    def power_w(self) -> Ranged | None:
        """Of all devices while they train."""
        return None if self.step is None else self.step.power_w

    @property
    def training_s(self) -> Ranged | None:
        """Of the whole training; None where its length was not named."""
        if self.step is None or self.length is None:
            return None
        return self.step.step_s.times(self.length.steps)

    @property
    def training_energy_j(self) -> Ranged | None:
        """Of the whole training; None where its length was not named."""
        if self.length is None or self.energy_j is None:
            return None
        return self.energy_j.times(self.length.steps)

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload predict --json`."""
        from trainload.api.predicting.document import prediction_document

        return prediction_document(self)

    def to_text(self, layers: int = 10) -> str:
        """What `trainload predict` prints, with so many of the longest layers."""
        from trainload.report.predict.terminal import render_prediction

        return render_prediction(self, layers)

    def to_html(self) -> str:
        """One self-contained page with every figure, its range and the layers."""
        from trainload.report.predict.html import render_prediction_html

        return render_prediction_html([self])

    def __repr__(self) -> str:
        """Title, device and the step's time."""
        said = self.missing if self.step_s is None else f"{self.step_s.value:.4g} s a step"
        return f"<Prediction {self.title} on {self.device.name}: {said}>"

    def _repr_html_(self) -> str:
        from trainload.report.cards import render_predictions_card

        return render_predictions_card([self])


@dataclass(frozen=True, kw_only=True, repr=False)
class Predictions:
    """The same training on several kinds of device, fastest first."""

    predictions: tuple[Prediction, ...]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)

    def __getitem__(self, at: int) -> Prediction:
        return self.predictions[at]

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload predict --device a,b --json`: `devices`, fastest first."""
        devices = [
            {"rank": rank, "name": one.device.name, "prediction": one.to_json()}
            for rank, one in enumerate(self.predictions, start=1)
        ]
        return {"format": PREDICTION_FORMAT, "origin": "prediction", "devices": devices}

    def to_text(self) -> str:
        """What `trainload predict --device a,b` prints."""
        from trainload.report.predict.terminal import render_predictions

        return render_predictions(self.predictions)

    def to_html(self) -> str:
        """One self-contained page: the ranked table, then each device."""
        from trainload.report.predict.html import render_prediction_html

        return render_prediction_html(self.predictions)

    def __repr__(self) -> str:
        """Each device with its step's time."""
        said = ", ".join(one.device.name for one in self.predictions)
        return f"<Predictions {self.predictions[0].title}: {said}>"

    def _repr_html_(self) -> str:
        from trainload.report.cards import render_predictions_card

        return render_predictions_card(self.predictions)


def rank_predictions(predictions: Sequence[Prediction]) -> Predictions:
    """Fastest first; those without a time last, in the order asked for."""

    def place(one: Prediction) -> tuple[bool, float]:
        step = one.step_s
        return step is None, 0.0 if step is None else step.value

    return Predictions(predictions=tuple(sorted(predictions, key=place)))
