"""Real pages for the gallery, made from the kept runs while the site is built."""

import io
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from trainload.cli.app import run_app

PAGES = {
    "gallery/h200-resnet50.html": ("report", "h200-torch-loop", "--html"),
    "gallery/h200-mlp.html": ("report", "h200-mlp-batch64", "h200-mlp-batch512", "--html"),
    "gallery/h200-compiled.html": (
        "compare", "h200-torch-loop", "h200-torch-loop-compiled", "--html",
    ),
}  # fmt: skip
"""Address of a page, and the command that makes it, the file's name left out."""


def gallery_pages(root: Path, folder: Path) -> dict[str, Path]:
    """Where each page was written, in a folder that the caller deletes when the site is built.

    Runs are copied there first: reading one writes into it.
    """
    runs = folder / "runs"
    shutil.copytree(root / "docs" / "measurements" / "runs", runs)
    made = {}
    for address, words in PAGES.items():
        path = folder / Path(address).name
        places = [str(runs / word) if (runs / word).is_dir() else word for word in words]
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            status = run_app([*places, str(path)])
        if status != 0:
            raise RuntimeError(f"{address} could not be made: {printed.getvalue()}")
        made[address] = path
    return made
