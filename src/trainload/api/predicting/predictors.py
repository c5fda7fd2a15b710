"""What is known of each device by calibrations, ready to be asked; each curve is fitted once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

from trainload.api.predicting.devices import find_known
from trainload.errors import MissingPart, UnknownHardware
from trainload.hardware.calibrations import load_calibrations
from trainload.predict.curves import Curves
from trainload.predict.host import usual_rates
from trainload.predict.limits import limits_of
from trainload.predict.step import Asked
from trainload.predict.transfer import Predictor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainload.hardware.catalogue import Device
    from trainload.predict.limits import Limits
    from trainload.predict.work import Work


class Predictors:
    """The calibrations at hand, for questions about any device."""

    def __init__(self) -> None:
        self._calibrations = load_calibrations()
        self._curves: dict[str, Curves] = {}
        self._known: dict[str, Predictor] = {}
        for name, one in self._calibrations.items():
            limits = _known_limits(name)
            if limits is not None:
                self._curves[name] = Curves(one, limits)
        self._other_host = usual_rates(
            one.dispatch_s
            for name, one in self._calibrations.items()
            if name in self._curves and not self._curves[name].limits.is_cpu
        )

    def ask(self, works: Sequence[Work], device: Device, limits: Limits) -> Asked:
        """The question after one step on a device."""
        own = self._calibrations.get(device.name)
        return Asked(
            works=works,
            device=device,
            limits=limits,
            predictor=self._predictor(device, limits),
            dispatch_s={} if own is None else own.dispatch_s,
            idle_w=None if own is None else own.idle_w,
            other_host_s=self._other_host,
        )

    def _predictor(self, device: Device, limits: Limits) -> Predictor:
        if device.name not in self._known:
            alike = {
                name: one
                for name, one in self._curves.items()
                if one.limits.is_cpu == limits.is_cpu
            }
            others = [one for name, one in alike.items() if name != device.name]
            own = self._calibrations.get(device.name)
            # By the limits of the device as it is asked for: one's own file may overrule them.
            mine = None if own is None else Curves(own, limits)
            self._known[device.name] = Predictor(limits, mine, others)
        return self._known[device.name]


def check_parts(answers: str) -> None:
    """MissingPart where numpy or scipy is not installed: with them calibrations are searched."""
    for name in ("numpy", "scipy"):
        if find_spec(name) is None:
            raise MissingPart(f"{answers} need {name}: pip install 'trainload[report]'")


def begin_predictors(*, beside: bool) -> Callable[[], Predictors]:
    """What gives the predictors; `beside`: a thread makes them while a worker traces.

    Not where this process is to be forked: a fork would lack that thread and hold its locks.
    """
    if not beside:
        made = _ready_predictors()
        return lambda: made
    pool = ThreadPoolExecutor(1)
    making = pool.submit(_ready_predictors)
    pool.shutdown(wait=False)
    return making.result


def _ready_predictors() -> Predictors:
    import scipy.spatial  # noqa: F401 - curves are trees of it, and it takes its time

    return Predictors()


def _known_limits(name: str) -> Limits | None:
    """Limits of a calibrated device; None where neither catalogue nor calibration tells them."""
    try:
        return limits_of(find_known(name))
    except UnknownHardware:
        return None
