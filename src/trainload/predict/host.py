"""What the host takes to dispatch a step: the second timeline; counts and rates alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainload.predict.work import Work

DISPATCH_S = 1.0e-5
"""Host seconds for an operation where no calibration tells: eager torch on a usual processor."""
_TENSOR_S = 4e-7
"""Host seconds for each tensor of an operation on lists, where no calibration tells."""
_ADAMW_LISTS = 12
"""Tensors that the passes of an unfused AdamW name for each weight."""
_WEIGHTS = 100
"""Of the optimizer whose step a calibration times."""
_TURN_S = 5e-4
"""What a turn of the loop takes besides operations: gradients set to none, autocast, the rule's own
Python. Chosen on the steps of bench/step_truth.py that the host holds."""
_OPERATIONS_A_SUM = 7
"""Operations forward for each sum of gradients backward, in the steps whose rates a calibration
holds: residual blocks have one in seven, transformers two in eleven."""
_CAST, _SUM = "_to_copy", "add_"
_HEAVY = ("linear", "bmm", "conv", "attention", "norm")
_WAITS = "_amp_foreach_non_finite_check_and_unscale_"
_LAUNCHES = {"lstm": 7.5, "gru": 4.4}
"""Kernels of cuDNN's recurrent layers, both ways, for each layer and time step (counted on an H200
by bench/step_truth.py --profile)."""
_SMALL = 128
"""Hidden units up to which such a layer is a few kernels for all time steps."""


def usual_rates(calibrated: Iterable[Mapping[str, float]]) -> Mapping[str, float]:
    """Rates of the calibrated host in the middle by its steps; none where none has whole steps."""
    whole = [rates for rates in calibrated if {"step_conv", "step_transformer"} <= rates.keys()]
    whole.sort(key=lambda rates: rates["step_conv"] + rates["step_transformer"])
    return whole[(len(whole) - 1) // 2] if whole else {}


def host_seconds(works: Sequence[Work], known: Mapping[str, float]) -> tuple[float, float]:
    """Seconds to dispatch forward and backward, and those of the update; rates of a calibration.

    With rates of whole steps each operation forward stands for what belongs to it backward.
    """
    update_s = _update_s(works, known)
    if "step_conv" not in known or "step_transformer" not in known:
        return _by_operation(works, known), update_s
    forward = [work for work in works if work.phase == "forward"]
    images = sum(work.operation.startswith("conv") or "channels" in work.sizes for work in forward)
    products = sum(work.operation in ("linear", "bmm", "attention") for work in forward)
    share = images / (images + products) if images + products else 0.5
    rate_s = share * known["step_conv"] + (1 - share) * known["step_transformer"]
    heavy, light = (share + (1 - share) * weight for weight in _weights(known))
    total_s = 0.0
    for work in forward:
        if work.operation in _LAUNCHES:
            total_s += _recurrent_s(work, known)
        else:
            weight = heavy if work.operation in _HEAVY else light
            total_s += known.get("step_cast", rate_s) if work.name == _CAST else rate_s * weight
    return total_s + _sums_s(works, len(forward), known) + _TURN_S, update_s


def _recurrent_s(work: Work, known: Mapping[str, float]) -> float:
    """Host seconds of a recurrent layer both ways, launched by its time steps."""
    places = work.sizes.get("steps", 1) * work.sizes.get("layers", 1)
    launches = _LAUNCHES[work.operation] * (work.sizes.get("hidden", 1) > _SMALL)
    launched_s = launches * known.get("operation", DISPATCH_S)
    return places * max(known.get(f"step_{work.operation}", 0.0), launched_s)


def processor_seconds(works: Sequence[Work], known: Mapping[str, float]) -> float:
    """What a processor takes besides the operations: Python, the graph, the update's own rule.

    A step of small operations less what these take by themselves, which their own points hold;
    recurrent layers are one operation there. None without a calibration's rates of whole steps.
    """
    if "step_conv" not in known or "step_transformer" not in known:
        return 0.0
    apart = [work for work in works if work.operation.partition("_")[0] not in _LAUNCHES]
    before_s, _ = host_seconds(apart, known)
    plain = known.get("operation", DISPATCH_S)
    updates = sum(work.phase == "update" for work in apart)
    rule = max(known.get("optimizer", 0.0) / (_ADAMW_LISTS * _WEIGHTS) - plain, 0.0)
    alone_s = sum(
        known.get(work.operation.partition("_")[0], plain)
        for work in apart
        if work.phase != "update"
    )
    return max(before_s - alone_s, 0.0) + updates * rule


def _sums_s(works: Sequence[Work], forward: int, known: Mapping[str, float]) -> float:
    """Host seconds of sums of gradients beyond those that rates of whole steps hold.

    What many operations read, as in densely connected networks, gets a gradient from each.
    """
    sums = sum(work.phase == "backward" and work.name == _SUM for work in works)
    return max(0.0, sums - forward / _OPERATIONS_A_SUM) * known.get("backward", DISPATCH_S)


def _weights(known: Mapping[str, float]) -> tuple[float, float]:
    """What a product or norm takes, and anything else, against the mean of a calibration's steps.

    By single calls; four of seven operations of those steps are products and norms. Networks of
    images go by the mean: their ReLUs and sums take no less.
    """
    light_s = known.get("recorded", 0.0)
    heavy = [known[name] for name in ("linear", "conv", "norm") if name in known]
    if not light_s or not heavy:
        return 1.0, 1.0
    heavy_s = sum(heavy) / len(heavy)
    mean_s = (4 * heavy_s + 3 * light_s) / 7
    return heavy_s / mean_s, light_s / mean_s


def waits_for_gradients(works: Sequence[Work]) -> bool:
    """Whether the update begins with a look at the gradients, as with scaled losses."""
    return any(work.name == _WAITS for work in works)


def _by_operation(works: Sequence[Work], known: Mapping[str, float]) -> float:
    plain = known.get("operation", DISPATCH_S)
    total_s = 0.0
    for work in works:
        if work.phase == "forward" and work.operation in _LAUNCHES:
            total_s += _recurrent_s(work, known)
        if work.phase == "backward":
            total_s += known.get("backward", plain)
        elif work.phase != "update":
            total_s += known.get(work.operation, known.get("recorded", plain))
    return total_s


def _update_s(works: Sequence[Work], known: Mapping[str, float]) -> float:
    plain = known.get("operation", DISPATCH_S)
    fused = known.get("optimizer_fused", _WEIGHTS * _TENSOR_S) / _WEIGHTS
    loose = _TENSOR_S
    if "optimizer" in known:
        loose = known["optimizer"] / (_ADAMW_LISTS * _WEIGHTS)
    total_s = 0.0
    for work in works:
        if work.phase == "update":
            each = fused / 4 if work.operation == "optimizer" else loose
            total_s += plain + work.sizes.get("tensors", 0) * each
    return total_s
