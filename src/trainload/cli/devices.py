"""`trainload devices`: the catalogue, and one device with the source of each figure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import typer

from trainload.cli.completing import complete_devices
from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device

EPILOG = """\b
Examples:
  trainload devices
  trainload devices jetson-tx2
  trainload devices h200 --json > mine.json   (a start for a device of your own)
  trainload devices ./mine.json"""


def devices_verb(
    name: str | None = typer.Argument(
        None,
        help="A device, or the path of a device file; default a list of all.",
        autocompletion=complete_devices,
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """List the devices whose figures are known, or show one with the source of each figure.

    Peaks are dense, not sparse, and by the fastest unit. A figure that no source states is missing.
    """
    from trainload.hardware.catalogue import find_device, load_catalogue

    if name is not None:
        device = find_device(name)
        shown = device.to_json()
        typer.echo(json_text(shown) if as_json else _render(device))
        return
    devices = list(load_catalogue().values())
    if as_json:
        document = {"devices": [device.to_json() for device in devices]}
        typer.echo(json_text(document))
        return
    typer.echo(_render_list(devices))


def _render_list(devices: list[Device]) -> str:
    from trainload.columns import render_columns

    figures = ("float32", "tf32", "bf16", "fp16")
    rows = [
        (
            device.name,
            device.kind,
            str(device.year or "–"),
            _shown("memory_bytes", device),
            _shown("bandwidth_bytes_per_s", device),
            *(_tera(device.value(f"{figure}_flop_per_s")) for figure in figures),
            _shown("power_w", device),
            "yes" if device.checked else "no",
        )
        for device in devices
    ]
    titles = ("device", "kind", "year", "memory", "bandwidth", *figures, "power", "checked")
    table = render_columns(titles, rows, right={3, 4, 5, 6, 7, 8, 9})
    return (
        f"{table}\n\n{len(devices)} devices; peaks in TFLOP/s, dense. "
        "The source of each figure: trainload devices NAME\n"
        "checked: compared with the sources it names after it was entered; "
        "compare the others before you rely on them"
    )


def _render(device: Device) -> str:
    from trainload.columns import render_columns
    from trainload.hardware.catalogue import FIGURES

    rows = []
    for name in FIGURES:
        figure = device.figures[name]
        source = figure.source if figure is not None else "no source states it"
        rows.append((_label(name), _shown(name, device), source))
    lines = [f"{device.title} ({device.name}), {device.kind}, {device.year or 'year not known'}"]
    if device.aliases:
        lines.append(f"also: {', '.join(device.aliases)}")
    if device.note:
        lines.append(f"note: {device.note}")
    lines.append(_calibrated(device))
    if not device.checked:
        lines.append("not yet compared with the sources it names: do so before you rely on it")
    return "\n".join([*lines, "", render_columns(("figure", "value", "source"), rows, {1})])


def _calibrated(device: Device) -> str:
    from trainload.hardware.calibrations import find_calibration

    found = find_calibration(device.name)
    if found is None:
        return "calibration: none; trainload calibrate makes one where the device is"
    lacks = f", lacks {', '.join(found.lacks)}" if found.lacks else ""
    return f"calibration: {len(found.points)} points, {found.taken_at}{lacks}"


def _label(name: str) -> str:
    base = re.sub("_(bytes|fraction|w|(bytes_|flop_|op_)per_s)$", "", name)
    return base.replace("_", " ")


def _shown(name: str, device: Device) -> str:
    from trainload.units import MISSING, render_bytes

    value = device.value(name)
    if value is None:
        return MISSING
    if name in ("memory_bytes", "cuda_memory_bytes"):
        return render_bytes(value)
    if name == "compute_capability":
        return f"{value:.1f}"
    if name == "ecc_memory_fraction":
        return f"{value:.2%}"
    if name == "bandwidth_bytes_per_s":
        return f"{value / 1e9:,.4g} GB/s" if value < 1e12 else f"{value / 1e12:.4g} TB/s"
    if name == "power_w":
        return f"{value:g} W"
    return f"{_tera(value)} T{'OP' if name == 'int8_op_per_s' else 'FLOP'}/s"


def _tera(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e12:.4g}"
