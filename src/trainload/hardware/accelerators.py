"""The accelerators of this machine, as NVML lists them and CUDA_VISIBLE_DEVICES shows them.

Reads names and sizes once and lets go of the library; load and power are the meters' duty.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One GPU; `gpu0` in a setting is the first one visible, as frameworks count."""

    index: int
    """Position among the visible ones."""
    nvml_index: int
    uuid: str
    name: str
    memory_bytes: int | None
    driver: str | None


@dataclass(frozen=True, kw_only=True)
class AcceleratorInventory:
    """The visible GPUs, or why there are none."""

    accelerators: tuple[Accelerator, ...] = ()
    note: str | None = None


def read_accelerators(
    environment: Mapping[str, str] | None = None, library: Any = None
) -> AcceleratorInventory:
    """GPUs visible to this process; none, with the reason, where NVML is absent."""
    environment = os.environ if environment is None else environment
    if library is None:
        try:
            import pynvml
        except ImportError:
            return AcceleratorInventory(
                note="nvidia-ml-py is not installed; pip install 'trainload[nvidia]'"
            )
        library = pynvml
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return AcceleratorInventory(note=f"no NVIDIA driver: {error}")
    try:
        found = _list_devices(library)
    except library.NVMLError as error:
        return AcceleratorInventory(note=f"NVML stopped answering: {error}")
    finally:
        library.nvmlShutdown()
    mask = environment.get("CUDA_VISIBLE_DEVICES")
    visible = visible_accelerators(found, mask)
    note = None
    if not visible:
        note = "no NVIDIA GPU" if not found else f"CUDA_VISIBLE_DEVICES={mask!r} hides every GPU"
    return AcceleratorInventory(accelerators=visible, note=note)


def visible_accelerators(
    found: tuple[Accelerator, ...], mask: str | None
) -> tuple[Accelerator, ...]:
    """Those that CUDA_VISIBLE_DEVICES shows, in its order.

    As CUDA does: an entry is an index or the beginning of a UUID, and the first entry that
    matches nothing ends the list.
    """
    if mask is None:
        return found
    chosen: list[Accelerator] = []
    for entry in (part.strip() for part in mask.split(",")):
        match = [
            a
            for a in found
            if (entry.isdigit() and a.nvml_index == int(entry))
            or (entry.startswith("GPU-") and a.uuid.startswith(entry))
        ]
        if len(match) != 1 or match[0].uuid in {a.uuid for a in chosen}:
            break
        one = match[0]
        chosen.append(
            Accelerator(
                index=len(chosen),
                nvml_index=one.nvml_index,
                uuid=one.uuid,
                name=one.name,
                memory_bytes=one.memory_bytes,
                driver=one.driver,
            )
        )
    return tuple(chosen)


def _list_devices(library: Any) -> tuple[Accelerator, ...]:
    driver = _text(library.nvmlSystemGetDriverVersion())
    devices = []
    for index in range(library.nvmlDeviceGetCount()):
        handle = library.nvmlDeviceGetHandleByIndex(index)
        try:
            memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
        except library.NVMLError:
            memory = None  # boards that share the host's memory state none
        devices.append(
            Accelerator(
                index=index,
                nvml_index=index,
                uuid=_text(library.nvmlDeviceGetUUID(handle)),
                name=_text(library.nvmlDeviceGetName(handle)),
                memory_bytes=memory,
                driver=driver,
            )
        )
    return tuple(devices)


def _text(value: Any) -> str:
    """The name as text: older versions of nvidia-ml-py give bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
