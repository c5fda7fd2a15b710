"""The device that is calibrated: one of this machine, by the word that names it."""

import os
import re
from dataclasses import dataclass
from typing import Literal

from trainload.errors import SettingError, UsageError
from trainload.hardware import Accelerator, Machine, Setting, resolve_setting
from trainload.hardware.inventory import cpu_name
from trainload.hardware.naming import device_key


@dataclass(frozen=True, kw_only=True)
class CalibrationTarget:
    """A device of this machine, under the catalogue's key."""

    kind: Literal["cuda", "cpu"]
    key: str
    name: str
    """As its driver or the system gives it; `cuda:0` where NVML does not list it."""
    setting: Setting
    visible: str | None = None
    """CUDA_VISIBLE_DEVICES of the worker, where the setting has no accelerator; None elsewhere."""

    @property
    def accelerator(self) -> Accelerator | None:
        """The GPU; None for the CPU."""
        return self.setting.accelerators[0] if self.setting.accelerators else None


def choose_target(text: str | None, machine: Machine) -> CalibrationTarget:
    """`cpu`, `cuda:0` or `gpu0` as a device here; None the first GPU or, without one, the CPU."""
    if text is None:
        text = "cuda:0" if machine.accelerators else "cpu"
    word = text.strip().lower()
    if word == "cpu":
        setting = resolve_setting("all", None, machine)
        name = cpu_name(machine)
        return CalibrationTarget(kind="cpu", key=device_key(name), name=name, setting=setting)
    found = re.fullmatch(r"(?:cuda|gpu):?(\d{0,4})", word)
    if found is None:
        raise UsageError(f"--device {text!r}: write cpu, or cuda:0 for the first GPU")
    number = int(found[1] or 0)
    if not machine.accelerators:
        return _unlisted(number, machine)
    setting = resolve_setting(f"all+gpu{number}", None, machine)
    name = setting.accelerators[0].name
    return CalibrationTarget(kind="cuda", key=device_key(name), name=name, setting=setting)


def _unlisted(number: int, machine: Machine) -> CalibrationTarget:
    """A GPU of boards, or of machines without nvidia-ml-py: torch will say what it is."""
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = [str(number)] if mask is None else [part.strip() for part in mask.split(",")]
    if mask is not None and number >= len(shown):
        raise SettingError(f"--device cuda:{number}: CUDA_VISIBLE_DEVICES={mask!r} hides it")
    return CalibrationTarget(
        kind="cuda",
        key=f"cuda-{number}",
        name=f"cuda:{number}",
        setting=resolve_setting("all", None, machine),
        visible=shown[number] if mask is not None else shown[0],
    )
