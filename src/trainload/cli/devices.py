"""`trainload devices`: the catalogue, those that words find, or one with its sources; links too."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from trainload.cli.completing import complete_devices
from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.hardware.catalogue import Device
    from trainload.hardware.links import Link

EPILOG = """\b
Examples:
  trainload devices
  trainload devices laptop 8gb        (those that all words fit: kind, maker, name, year, size)
  trainload devices amd data-centre
  trainload devices accelerator checked --json
  trainload devices jetson-tx2        (one, with the source of each figure)
  trainload devices --links nvlink
  trainload devices h200 --json > mine.json   (a start for a device of your own)
  trainload devices ./mine.json"""


def devices_verb(
    words: list[str] | None = typer.Argument(
        None,
        help="A device, the path of a device file, or words that those to list must all fit; "
        "default all.",
        show_default=False,
        autocompletion=complete_devices,
    ),
    links: bool = typer.Option(
        False, "--links", help="List links between devices, to hosts and networks instead."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """List the devices whose figures are known, or show one with the source of each figure.

    Peaks are dense, not sparse, and by the fastest unit. A figure that no source states is missing.
    """
    from trainload.hardware.catalogue import devices_like

    if links:
        shown = _links_like(words or [])
        document = {"links": [link.to_json() for link in shown]}
        typer.echo(json_text(document) if as_json else _render_links(shown))
        return
    device = _meant(words) if words else None
    if device is not None:
        typer.echo(json_text(device.to_json()) if as_json else _render(device))
        return
    devices = devices_like(words or [])
    if as_json:
        typer.echo(json_text({"devices": [one.to_json() for one in devices]}))
        return
    typer.echo(_render_list(devices))


def _meant(words: list[str]) -> Device | None:
    """The one device that the words name; None where they find several."""
    from trainload.errors import UnknownHardware
    from trainload.hardware.catalogue import devices_like, find_device

    text = " ".join(words)
    try:
        return find_device(text)
    except UnknownHardware:
        if "/" in text or text.endswith(".json") or not devices_like(words):
            raise
        return None


def _links_like(words: list[str]) -> list[Link]:
    from trainload.errors import UnknownHardware
    from trainload.hardware.links import load_links

    wanted = [word.lower() for word in words]
    found = [
        link
        for link in load_links().values()
        for told in [" ".join([link.name, link.title, link.maker, *link.aliases]).lower()]
        if all(word in told for word in wanted)
    ]
    if not found:
        raise UnknownHardware(f"no link fits {' '.join(words)!r}; trainload devices --links")
    return found


def _render_links(links: list[Link]) -> str:
    from trainload.columns import render_columns

    rows = [
        (
            link.name,
            link.title,
            str(link.year),
            _gigabytes(link.bytes_per_s.value),
            link.bytes_per_s.source,
        )
        for link in links
    ]
    table = render_columns(("link", "what", "year", "a direction", "source"), rows, {3})
    return f"{table}\n\n{len(links)} links; one direction, before what protocols take"


def _render_list(devices: list[Device]) -> str:
    from trainload.columns import render_columns
    from trainload.hardware.catalogue import KINDS

    figures = ("float32", "tf32", "bf16", "fp16")
    devices = sorted(devices, key=lambda device: KINDS.index(device.kind))
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
    head, *lines = render_columns(titles, rows, right={3, 4, 5, 6, 7, 8, 9}).splitlines()
    groups = [list(group) for _, group in groupby(zip(devices, lines, strict=True), _kind)]
    table = "\n\n".join("\n".join(line for _, line in group) for group in groups)
    checked = sum(device.checked for device in devices)
    return (
        f"{head}\n{table}\n\n{len(devices)} devices; peaks in TFLOP/s, dense. "
        "One with its sources: trainload devices NAME; fewer: trainload devices laptop 8gb\n"
        f"checked ({checked}): a second source agrees with the maker's; "
        "compare the others before you rely on them"
    )


def _kind(listed: tuple[Device, str]) -> str:
    return listed[0].kind


def _render(device: Device) -> str:
    from trainload.columns import render_columns
    from trainload.hardware.catalogue import FIGURES

    rows = []
    for name in FIGURES:
        figure = device.figures[name]
        if figure is not None:
            rows.append((_label(name), _shown(name, device), figure.source))
            for word, told in (("agrees", figure.also), ("differs", figure.differs)):
                rows.extend([("", word, told)] if told else [])
    missing = [name for name in _sensible(device) if device.figures[name] is None]
    lines = [f"{device.title} ({device.name}), {device.kind}, {device.year or 'year not known'}"]
    if device.aliases:
        lines.append(f"also: {', '.join(device.aliases)}")
    if device.note:
        lines.append(f"note: {device.note}")
    lines.append(_calibrated(device))
    if not device.checked:
        lines.append("no second source was compared: do so before you rely on it")
    table = render_columns(("figure", "value", "source"), rows, {1})
    if missing:
        table += f"\n\nno source states: {', '.join(map(_label, missing))}"
    return "\n".join([*lines, "", table])


def _sensible(device: Device) -> list[str]:
    """Figures that a device of this kind could have."""
    from trainload.hardware.catalogue import FIGURES

    of_processors = ("cores", "base_clock_hz", "boost_clock_hz", "memory_channels", "vector_bits")
    of_cuda = ("compute_capability", "ecc_memory_fraction", "cuda_memory_bytes")
    if device.kind == "CPU":
        left_out = {"memory_bytes", "link_bytes_per_s", *of_cuda}
    else:
        left_out = {*of_processors, *(() if device.capability else of_cuda)}
    return [name for name in FIGURES if name not in left_out]


def _calibrated(device: Device) -> str:
    from trainload.hardware.calibrations import find_calibration

    found = find_calibration(device.name)
    if found is None:
        return "calibration: none; trainload calibrate makes one where the device is"
    lacks = f", lacks {', '.join(found.lacks)}" if found.lacks else ""
    return f"calibration: {len(found.points)} points, {found.taken_at}{lacks}"


def _label(name: str) -> str:
    base = re.sub("_(bytes|fraction|w|hz|(bytes_|flop_|op_)per_s)$", "", name)
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
    if name.endswith("_bytes_per_s"):
        return _gigabytes(value)
    if name.endswith("_hz"):
        return f"{value / 1e9:g} GHz"
    if name in ("cores", "memory_channels", "vector_bits"):
        return f"{value:g}"
    if name == "power_w":
        return f"{value:g} W"
    return f"{_tera(value)} T{'OP' if name == 'int8_op_per_s' else 'FLOP'}/s"


def _gigabytes(value: float) -> str:
    return f"{value / 1e9:,.4g} GB/s" if value < 1e12 else f"{value / 1e12:.4g} TB/s"


def _tera(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e12:.4g}"
