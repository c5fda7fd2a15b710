"""`trainload detect`: this machine and every meter on it."""

import typer

from trainload.cli.printing import json_text

EPILOG = """\b
Examples:
  trainload detect
  trainload detect --json"""


def detect_verb(
    as_json: bool = typer.Option(False, "--json", help="Print as JSON."),
) -> None:
    """Show this machine, and for each meter whether it is measured, derived or unavailable."""
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
    if as_json:
        typer.echo(json_text({"machine": to_json(machine), "meters": described}))
        return
    from trainload.cli.printing import print_rendered
    from trainload.record import RecordedMeter
    from trainload.report import render_detect

    meters_found = check_value(tuple[RecordedMeter, ...], described, "the meters")
    print_rendered(render_detect(machine, meters_found))
