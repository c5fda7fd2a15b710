"""The raw figures under docs/measurements/raw: one compressed file a table, one line a row.

    python bench/raw.py                              every table with its rows
    python bench/raw.py TABLE ROW                    one row: what was printed, then its figures
    python bench/raw.py TABLE ROW --keep FILE…       put a bench's .json and .txt in as that row
    python bench/raw.py TABLE --to FOLDER            every row as ROW.json and ROW.txt

A table is called as the bench that fills it; a row is one run of it, called as the machine, or
one case. A line is {"name": …, "printed": text or null, "figures": any JSON or null}, so that zcat
and anything that reads JSON lines reads it too. Needs no library.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

RAW = Path(__file__).resolve().parent.parent / "docs" / "measurements" / "raw"
SUFFIX = ".jsonl.gz"

Row = Mapping[str, Any]


def table_path(table: str) -> Path:
    """Where a table lies."""
    return RAW / f"{table}{SUFFIX}"


def load_rows(path: Path) -> Iterator[Row]:
    """The rows of a table in its order; none where the file is not there."""
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            yield from map(json.loads, stream)


def load_figures(table: str, name: str) -> Any:
    """The figures of one row; KeyError where there is no such row."""
    return {row["name"]: row["figures"] for row in load_rows(table_path(table))}[name]


def save_rows(path: Path, rows: Iterable[Row]) -> None:
    """A table, the same bytes for the same rows."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as stream:
        for row in rows:
            text = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
            stream.write(text.encode() + b"\n")
    path.write_bytes(packed.getvalue())


def keep(table: str, name: str, **parts: Any) -> None:
    """Put `figures`, `printed` or both into a row; a new row comes last."""
    path = table_path(table)
    rows = {row["name"]: row for row in load_rows(path)}
    rows[name] = {"name": name, "printed": None, "figures": None, **rows.get(name, {}), **parts}
    save_rows(path, rows.values())


def _keep_files(table: str, name: str, files: Iterable[Path]) -> None:
    for file in files:
        text = file.read_text(encoding="utf-8")
        figures = file.suffix == ".json"
        keep(table, name, **({"figures": json.loads(text)} if figures else {"printed": text}))


def _unpack(table: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for row in load_rows(table_path(table)):
        if row["figures"] is not None:
            (folder / f"{row['name']}.json").write_text(json.dumps(row["figures"], indent=1))
        if row["printed"] is not None:
            (folder / f"{row['name']}.txt").write_text(row["printed"], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", nargs="?")
    parser.add_argument("row", nargs="?")
    parser.add_argument("--keep", nargs="+", type=Path, metavar="FILE", help="put these in")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="write every row there")
    words = parser.parse_args()
    if words.table is None:
        for path in sorted(RAW.glob(f"*{SUFFIX}")):
            names = [row["name"] for row in load_rows(path)]
            more = f" … {len(names)} rows" if len(names) > 5 else ""
            print(f"{path.name.removesuffix(SUFFIX):28} {', '.join(names[:5])}{more}")
    elif words.to is not None:
        _unpack(words.table, words.to)
    elif words.row is not None and words.keep:
        _keep_files(words.table, words.row, words.keep)
    else:
        rows = {row["name"]: row for row in load_rows(table_path(words.table))}
        if words.row not in rows:
            sys.exit(f"{words.table} has the rows: {', '.join(rows) or 'none'}")
        row = rows[words.row]
        print(row["printed"] or "", end="")
        if row["figures"] is not None:
            print(json.dumps(row["figures"], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
