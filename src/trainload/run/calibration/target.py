"""The device that is calibrated: one of this machine, by the word that names it."""

import re
from dataclasses import dataclass
from typing import Literal

from trainload.errors import UsageError
from trainload.hardware import Accelerator, Machine, Setting, resolve_setting
from trainload.hardware.naming import device_key


@dataclass(frozen=True, kw_only=True)
class CalibrationTarget:
    """A device of this machine, under the catalogue's key."""

    kind: Literal["cuda", "cpu"]
    key: str
    name: str
    """As its driver or the system gives it."""
    setting: Setting

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
        name = machine.cpu_model or machine.architecture or "CPU"
        return CalibrationTarget(kind="cpu", key=device_key(name), name=name, setting=setting)
    found = re.fullmatch(r"(?:cuda|gpu):?(\d{0,4})", word)
    if found is None:
        raise UsageError(f"--device {text!r}: write cpu, or cuda:0 for the first GPU")
    setting = resolve_setting(f"all+gpu{found[1] or '0'}", None, machine)
    name = setting.accelerators[0].name
    return CalibrationTarget(kind="cuda", key=device_key(name), name=name, setting=setting)
