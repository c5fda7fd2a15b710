"""A prediction as the document that is shown: plain figures, each again under `low` and `high`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainload.api.predicting.result import PREDICTION_FORMAT
from trainload.predict.money import Emission, Lacking
from trainload.predict.transfer import LEVEL

if TYPE_CHECKING:
    from trainload.api.predicting.result import Prediction
    from trainload.predict.money import Cost

_FIGURES = (
    "step_s",
    "examples_per_s",
    "power_w",
    "energy_j",
    "training_s",
    "training_energy_j",
)


def prediction_document(done: Prediction) -> dict[str, Any]:
    """Every figure with its unit in its name; null where it is not known."""
    step, choice, memory = done.step, done.choice, done.memory.estimate
    model = step if step is None or step.model is None else step.model
    return {
        "format": PREDICTION_FORMAT,
        "origin": "prediction",
        "what": done.title,
        "device": done.device.name,
        "count": done.count,
        "batch_size": None if choice is None else choice.batch_size,
        "precision": done.precision,
        "optimizer": None if choice is None else choice.optimizer.name,
        "steps": None if done.length is None else done.length.steps,
        "epochs": None if done.length is None else done.length.epochs,
        "level": LEVEL,
        **_ends(done, "value"),
        "low": _ends(done, "low"),
        "high": _ends(done, "high"),
        "tier": None if step is None else step.tier,
        "model_step_s": None if model is None else model.step_s.value,
        "model_tier": None if model is None else model.tier,
        "nearest_calibrations": [] if step is None else list(step.nearest),
        "why": None if step is None else step.why,
        "missing": done.missing,
        "warning": done.warning,
        "bound": None if step is None else step.bound,
        "limit": None if step is None else step.limit,
        "device_s": None if step is None else step.device_s,
        "host_s": None if step is None else step.host_s,
        "exchange_s": None if step is None else step.exchange_s,
        "flop": None if step is None else step.flop,
        "utilisation_fraction": None if step is None else step.utilisation,
        "utilisation_of": None if step is None else step.utilisation_of,
        "money": _cost(done.cost),
        "emission": _cost(done.emission),
        "memory": {
            "verdict": done.verdict,
            "fits": done.fits,
            "needed_bytes": None if memory is None else asdict(memory.needed_bytes),
            "capacity_bytes": None if memory is None else memory.capacity_bytes,
        },
        "notes": list(done.memory.notes),
        "layers": []
        if step is None
        else [{**asdict(layer), "total_s": layer.total_s} for layer in step.layers],
    }


def _cost(found: Cost | Emission | Lacking | None) -> dict[str, Any]:
    """Its figures with their basis, or `missing` with the reason."""
    if found is None or isinstance(found, Lacking):
        return {"missing": "not asked for" if found is None else found.reason}
    if isinstance(found, Emission):
        return {**asdict(found), "missing": None}
    return {
        "usd": found.usd,
        "low_usd": found.low_usd,
        "high_usd": found.high_usd,
        "basis": found.basis,
        "missing": None,
    }


def _ends(done: Prediction, end: str) -> dict[str, float | None]:
    found = {name: getattr(done, name) for name in _FIGURES}
    return {name: None if one is None else getattr(one, end) for name, one in found.items()}
