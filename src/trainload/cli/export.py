"""`trainload export`: runs and studies as tables, images and files of other tools."""

from pathlib import Path

import typer

EPILOG = """\b
Examples:
  trainload export studies/width-and-batch --to latex --out tables/
  trainload export RUN --to parquet --out tables/
  trainload export RUN --plot cpu-load --to svg --out figures/
  trainload export studies/width-and-batch --plot step_s --to png --out figures/
  trainload export runs/ --to mlflow --out exported/"""


def export_verb(
    place: str = typer.Argument(help="A run, a study's folder, or a folder or pattern of runs."),
    to: str = typer.Option(
        ...,
        "--to",
        help="csv, parquet, markdown, latex; png, svg; mlflow, tensorboard, wandb, openmetrics.",
        metavar="KIND",
    ),
    out: Path = typer.Option(Path("exported"), help="Folder to write into."),
    plot: str | None = typer.Option(
        None, help="The plot to draw; left out with an image, its names are listed."
    ),
    metric: str | None = typer.Option(
        None, help="One metric of a study's cells; effects and best are of it."
    ),
) -> None:
    """Write tables, an image of a plot, or another tool's files, and print their paths.

    Other tools' files are written by their own libraries and sent nowhere.
    """
    from trainload.api.exporting import export

    for path in export(place, to=to, out=out, plot=plot, metric=metric):
        typer.echo(str(path.resolve()))
