"""Studies of synthetic runs for the tests of the page of many runs."""

import json


def fill_study(write_one, folder, cells, **options):
    """Runs of cells as the options say, `planned` cells beside them; answers the folder.

    A cell is its factors and what its run is like; equal factors are repetitions.
    """
    planned = options.pop("planned", ())
    (folder / "runs").mkdir(parents=True)
    factors_of = [factors for factors, _ in cells] + list(planned)
    unique = {json.dumps(f): f for f in factors_of}
    names = {text: f"cell{at}" for at, text in enumerate(unique)}
    lines = [
        {"identity": names[text], "factors": f, "title": text, "seconds": 1.0}
        for text, f in unique.items()
    ]
    (folder / "study.yaml").write_text("name: sample\n")
    (folder / "cells.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    seen: dict[str, int] = {}
    for factors, own in cells:
        text = json.dumps(factors)
        seen[text] = seen.get(text, -1) + 1
        told = {"study": "sample", "cell": names[text], "repetition": seen[text],
                "factors": factors}  # fmt: skip
        changes = {"study": told, **own.get("changes", {})}
        given = {"epochs": 1, "steps_per_epoch": 40, **options, **own, "changes": changes}
        write_one(folder / "runs", **given)
    return folder


def grid(batch_sizes=(16, 32), precisions=("float32", "bf16"), repetitions=3):
    """A full grid in which a larger batch takes longer, and bf16 is quicker."""
    return [
        (
            {"batch_size": batch, "precision": precision},
            {"step_s": 0.001 * batch * (0.5 if precision == "bf16" else 1) * (1 + n / 200)},
        )
        for batch in batch_sizes
        for precision in precisions
        for n in range(repetitions)
    ]
