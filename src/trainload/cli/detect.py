"""`trainload detect`: this machine and every meter on it."""

import typer

from trainload.cli.printing import json_text

EPILOG = """\b
Examples:
  trainload detect
  trainload detect --json
  trainload detect --measure"""


def detect_verb(
    measure: bool = typer.Option(
        False, "--measure", help="Also measure what it reaches, in a minute, and keep that."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Show this machine, and for each meter whether it is measured, derived or unavailable.

    With --measure also its limits: rates of memory, caches, drive, matrix products and GPU, latency
    by working set. They are kept in your data folder, so that runs can be held to them.
    """
    from trainload.checked import check_value, to_json
    from trainload.hardware import read_machine
    from trainload.meters import MeterContext, describe_meters, open_meters

    machine = read_machine()
    context = MeterContext(
        accelerator_uuids=tuple(a.uuid for a in machine.accelerators) or None,
        accelerator_indices=tuple(a.index for a in machine.accelerators) or None,
    )
    meters = open_meters(context)
    described = describe_meters(meters)
    for meter in meters:
        meter.close()
    limits, path = None, None
    if measure:
        from trainload.api.measuring import measure_limits
        from trainload.cli.progress import ProgressLine

        with ProgressLine(quiet=as_json) as line:
            limits, path = measure_limits(show=line)
    if as_json:
        told = {"machine": to_json(machine), "meters": described}
        if limits is not None:
            told["limits"] = {"path": str(path), **to_json(limits)}
        typer.echo(json_text(told))
        return
    from trainload.cli.printing import print_rendered
    from trainload.record import RecordedMeter
    from trainload.report import render_detect

    meters_found = check_value(tuple[RecordedMeter, ...], described, "the meters")
    print_rendered(render_detect(machine, meters_found))
    if limits is not None:
        from trainload.report.rules import render_limits

        print_rendered(render_limits(limits))
        typer.echo(f"kept: {path}")
