"""`trainload subset`: a small, balanced part of an image folder to train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trainload.cli.printing import json_text

EPILOG = """\b
Examples:
  trainload subset imagenet/train --classes 10 --per-class 1300 --out mimgnet10
  trainload subset photos --class cat --class dog --out pets --link
  trainload subset photos --validation-fraction 0 --out all --json"""

SHOWN_CLASSES = 20
SHOWN_SKIPS = 5


def subset_verb(
    folder: Path = typer.Argument(help="A folder that holds one folder of images for each class."),
    out: Path = typer.Option(..., help="Folder to write the manifest, or the links, to."),
    classes: int | None = typer.Option(
        None, metavar="N", help="Classes to draw; default all.", min=1
    ),
    names: list[str] = typer.Option(
        [], "--class", metavar="NAME", help="A class to take; repeatable."
    ),
    per_class: int | None = typer.Option(
        None,
        metavar="N",
        help="Images of each class, validation included; default all that can be balanced.",
        min=1,
    ),
    validation_fraction: float = typer.Option(0.2, help="Share kept for validation; 0 for none."),
    seed: int = typer.Option(0, help="Draws the classes and the images."),
    link: bool = typer.Option(
        False, "--link/--manifest-only", help="Also make links to the images, in train/ and val/."
    ),
    force: bool = typer.Option(False, "--force", help="Move what stands at --out aside first."),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON."),
) -> None:
    """Choose a balanced subset of an image folder, after mImgNet10 of Zanchetta 2022.

    Four zones of file size are told apart by the mean X and the deviation σ over the chosen
    classes: A from X+σ to X+2σ, B from X to X+σ, C from X−σ to X, D from X−2σ to X−σ. Each draw
    takes one image of every class from the same zone, and a draw of large images is followed by
    one of small ones, so that the sum of all sizes stays at its mean. No image is decoded, copied
    or changed. A seed gives the same subset on any machine.
    """
    from trainload.cli.progress import ProgressLine
    from trainload.workload.subset.choose import SubsetRequest, choose_subset
    from trainload.workload.subset.files import check_place, save_subset
    from trainload.workload.subset.summary import summarise_subset

    request = SubsetRequest(
        folder=folder,
        class_count=classes,
        class_names=tuple(names),
        per_class=per_class,
        validation_fraction=validation_fraction,
        seed=seed,
    )
    check_place(folder, out, force=force)
    with ProgressLine(quiet=as_json) as show:
        chosen = choose_subset(request, lambda seen: show(f"{seen:,} files read"))
        show("writing")
        summary = summarise_subset(chosen)
        moved = save_subset(chosen, summary, out, link=link, force=force)
    if as_json:
        document = {
            **summary,
            "out": str(out),
            "moved_aside": None if moved is None else str(moved),
        }
        typer.echo(json_text(document))
        return
    typer.echo(_render(summary))
    if moved is not None:
        typer.echo(f"moved aside: {_plain(str(moved))}")
    typer.echo(f"{'links' if link else 'manifest'}: {_plain(str(out))}")


def _render(summary: dict[str, Any]) -> str:
    from trainload.units import render_bytes

    lines = [
        f"{_counted(summary['class_count'], 'class', 'classes')}, "
        f"{_counted(summary['per_class'], 'image', 'images')} each "
        f"({summary['train_per_class']:,} to train, {summary['validation_per_class']:,} to "
        f"validate): {summary['images']:,} of {summary['images_before']:,}",
        f"file size: mean {render_bytes(summary['mean_bytes'])}, "
        f"deviation {render_bytes(summary['deviation_bytes'])}",
        "",
        _render_zones(summary),
        "",
        _render_classes(summary),
        "",
        _render_balance(summary),
    ]
    for reason, count in summary["skipped"].items():
        lines.append(f"skipped: {count:,} {reason}")
    lines += [
        f"  {_plain(skip['path'])}: {skip['reason']}"
        for skip in summary["skipped_files"][:SHOWN_SKIPS]
    ]
    if sum(summary["skipped"].values()) > SHOWN_SKIPS:
        lines.append("  … (more with --json)")
    lines += [f"note: {note}" for note in summary["notes"]]
    return "\n".join(lines)


def _render_zones(summary: dict[str, Any]) -> str:
    from trainload.columns import render_columns
    from trainload.units import MISSING, render_bytes

    rows = []
    for zone in summary["zones"]:
        low, high = zone["low_bytes"], zone["high_bytes"]
        before, after = f"{zone['images_before']:,}", f"{zone['images']:,}"
        rows.append(
            (
                zone["zone"],
                MISSING if low is None else f"{render_bytes(max(low, 0))} … {render_bytes(high)}",
                before,
                MISSING if zone["least_in_a_class"] is None else f"{zone['least_in_a_class']:,}",
                after,
                f"{zone['per_class']:,}",
                _signed(zone["balance_before_bytes"]),
                _signed(zone["balance_bytes"]),
            )
        )
    whole = (f"{summary['images_before']:,}", "", f"{summary['images']:,}")
    per_class = f"{summary['per_class']:,}"
    rows.append(("all", "", *whole, per_class, "0 bytes", _signed(summary["balance_bytes"])))
    titles = ("zone", "file size", "images", "least in a class", "chosen", "per class")
    return render_columns(
        (*titles, "balance before", "balance after"), rows, right={2, 3, 4, 5, 6, 7}
    )


def _render_classes(summary: dict[str, Any]) -> str:
    from trainload.columns import render_columns
    from trainload.units import render_bytes

    rows = [
        (
            _plain(one["class"]),
            f"{one['images_before']:,}",
            f"{one['images']:,}",
            render_bytes(one["mean_before_bytes"]),
            render_bytes(one["mean_bytes"]),
        )
        for one in summary["classes"][:SHOWN_CLASSES]
    ]
    titles = ("class", "images", "chosen", "mean before", "mean after")
    table = render_columns(titles, rows, right={1, 2, 3, 4})
    hidden = len(summary["classes"]) - len(rows)
    return f"{table}\n… and {hidden:,} more classes (--json)" if hidden > 0 else table


def _render_balance(summary: dict[str, Any]) -> str:
    return (
        f"balance: {_signed(summary['balance_bytes'])} in the end, "
        f"{_signed(summary['largest_balance_bytes']).lstrip('+')} at most on the way; "
        f"training {_signed(summary['train_balance_bytes'])}, "
        f"validation {_signed(summary['validation_balance_bytes'])}"
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _signed(value_bytes: float) -> str:
    from trainload.units import render_bytes

    text = render_bytes(value_bytes)
    if text in ("0 bytes", "-0 bytes"):
        return "0 bytes"
    return text.replace("-", "−") if value_bytes < 0 else f"+{text}"


def _plain(text: str) -> str:
    """A name of the user's as it stands, or escaped where a terminal would obey it."""
    return text if text.isprintable() else ascii(text)
