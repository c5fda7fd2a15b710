"""Make the table of the reference book that is shipped, from what was measured for this product.

    .venv/bin/python bench/book_shipped.py            # says whether the shipped table is the one
    .venv/bin/python bench/book_shipped.py --write

Sources: the run directories of docs/measurements/runs, and two raw tables: `seven_cnns cpu` and
`memory_truth h200`.
"""

import argparse
import gzip
import json
import shutil
import tempfile
from pathlib import Path

from trainload.analyse.book import BookEntry, BookFigure, in_order, parse_table, table_json
from trainload.api.booking import book

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "docs" / "measurements"
SHIPPED = ROOT / "src" / "trainload" / "analyse" / "book" / "shipped.json"
CPU = "AMD EPYC, 2 virtual cores"


def raw(table: str, row: str) -> dict:
    with gzip.open(MEASURED / "raw" / f"{table}.jsonl.gz", "rt") as lines:
        return next(d["figures"] for d in map(json.loads, lines) if d["name"] == row)


def seven_cnns() -> list[BookEntry]:
    told = raw("seven_cnns", "cpu")
    return [
        BookEntry(
            model=run["model"],
            origin="measured",
            source="docs/measurements/raw/seven_cnns.jsonl.gz, row cpu",
            variant=f"images {run['image_side']}×{run['image_side']}, 40 steps",
            framework=run["framework"],
            framework_version=run["framework_version"],
            device=CPU,
            setting="1 thread",
            batch_size=told["batch_size"],
            precision="float32",
            optimizer=told["optimizer"],
            repetitions=1,
            figures={
                "step_s": BookFigure(value=run["median_step_s"]),
                "examples_per_s": BookFigure(value=told["batch_size"] / run["median_step_s"]),
            },
            software={run["framework"]: run["framework_version"]},
            note="the machine did other work too: times are upper bounds",
        )
        for run in told["runs"]
        if run["problem"] is None
    ]


def memory_cases() -> list[BookEntry]:
    told = raw("memory_truth", "h200")
    software = {n: told["software"][n] for n in ("torch", "torchvision", "transformers", "cuda")}
    return [
        BookEntry(
            model=case["model"],
            origin="measured",
            source="docs/measurements/raw/memory_truth.jsonl.gz, row h200",
            framework="torch",
            framework_version=software["torch"],
            device=told["software"]["device"],
            setting="gpu0",
            batch_size=case["batch"],
            precision=case["precision"],
            optimizer=case["optimizer"],
            repetitions=1,
            figures={"peak_reserved_bytes": BookFigure(value=max(case["reserved_bytes"]))},
            software=software,
            note="three steps, for their memory alone",
        )
        for case in told["cases"]
    ]


def run_directories() -> list[BookEntry]:
    with tempfile.TemporaryDirectory() as scratch:
        runs = Path(scratch) / "runs"
        shutil.copytree(MEASURED / "runs", runs)  # reading seals: never in the source
        return [*book(runs).entries]


def make_entries() -> list[BookEntry]:
    return in_order([*run_directories(), *seven_cnns(), *memory_cases()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    document = table_json(make_entries(), "bench/book_shipped.py --write")
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if asked.write:
        SHIPPED.write_text(text, encoding="utf-8")
    same = SHIPPED.exists() and SHIPPED.read_text(encoding="utf-8") == text
    count = len(parse_table(text.encode(), "the table"))
    print(f"{count} entries; the shipped table is {'the same' if same else 'another'}")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
