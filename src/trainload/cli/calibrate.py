"""`trainload calibrate`: what the device at hand reaches, as a file that predictions rest on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trainload.cli.printing import json_text

if TYPE_CHECKING:
    from trainload.hardware.calibrations import Calibration, Point

EPILOG = """\b
Examples:
  trainload calibrate
  trainload calibrate --device cpu
  trainload calibrate --device cuda:1 --out h200.json
  trainload calibrate --seconds 60 --anyway --json"""


def calibrate_verb(
    device: str | None = typer.Option(
        None, help="cpu, or cuda:0 for the first GPU; default the first GPU, else the CPU."
    ),
    seconds: float = typer.Option(150.0, help="Time for the sweep, torch's start not counted."),
    out: Path | None = typer.Option(
        None, metavar="FILE", help="The file; default that of the device in your data folder."
    ),
    anyway: bool = typer.Option(
        False, "--anyway", help="Also where others use the device or the host; the file says so."
    ),
    python: str | None = typer.Option(
        None, help="Interpreter that has torch; default its environment."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the calibration as JSON."),
) -> None:
    """Time the kernels of the device at hand: products, convolutions, attention, norms and more.

    Each kind of operation in each number type and many sizes, what the host takes to dispatch, and
    the power where a meter reads it. One small file, which predictions then rest on.
    """
    from trainload.api.calibrating import calibrate
    from trainload.cli.progress import ProgressLine
    from trainload.hardware.calibrations.form import to_document

    with ProgressLine(quiet=as_json) as show:
        done = calibrate(device, seconds=seconds, out=out, anyway=anyway, python=python, show=show)
    if as_json:
        typer.echo(json_text({"path": str(done.path), **to_document(done.calibration)}))
        return
    typer.echo(render_calibration(done.calibration))
    typer.echo(f"\n{done.path.resolve()}")


def render_calibration(calibration: Calibration) -> str:
    """What was reached, by class and number type; dispatch, power, gaps and notes."""
    from trainload.columns import render_columns
    from trainload.units import render_seconds

    dtypes = list(dict.fromkeys(point.dtype for point in calibration.points))
    groups: dict[str, dict[str, list[Point]]] = {}
    for point in calibration.points:
        groups.setdefault(point.operation, {}).setdefault(point.dtype, []).append(point)
    rows = [
        (name, str(sum(map(len, kinds.values()))), *(_best(kinds.get(one)) for one in dtypes))
        for name, kinds in groups.items()
    ]
    columns = {*range(1, 2 + len(dtypes))}
    lines = [
        f"{calibration.device}: {len(calibration.points)} points, {calibration.taken_at}",
        "",
        render_columns(("best of", "points", *dtypes), rows, right=columns),
        "",
        "host's dispatch: "
        + ", ".join(f"{name} {render_seconds(s)}" for name, s in calibration.dispatch_s.items()),
        _power_line(calibration),
    ]
    if calibration.lacks:
        lines.append(f"lacks: {', '.join(calibration.lacks)}")
    return "\n".join([*lines, *(f"note: {note}" for note in calibration.notes)])


def _best(points: list[Point] | None) -> str:
    """The highest rate: by FLOPs where the class computes, else by bytes."""
    if not points:
        return "–"
    if points[0].operation in _COMPUTES:
        return f"{max(point.flops / point.seconds for point in points) / 1e12:.3g} TFLOP/s"
    return f"{max(point.bytes / point.seconds for point in points) / 1e9:.3g} GB/s"


_COMPUTES = (
    *("linear", "bmm", "conv", "conv_grad_input", "conv_grad_weight"),
    *("attention", "attention_backward", "lstm", "lstm_backward", "gru", "gru_backward"),
)


def _power_line(calibration: Calibration) -> str:
    powers = [point.power_w for point in calibration.points if point.power_w is not None]
    if not powers:
        return "power: no meter read it"
    idle = "–" if calibration.idle_w is None else f"{calibration.idle_w:.0f} W"
    return f"power: idle {idle}, {min(powers):.0f} to {max(powers):.0f} W of {len(powers)} points"
