"""One change to a run directory that a stranger, a bad disk or a power cut could make.

Each kind takes the directory, dice and a folder outside, and says in words what it did.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

DEEP = "600 lists in each other"
_DEEPEST = 700
"""Levels below which nothing is changed: one such nest may be changed again, no deeper."""
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1e308, -1e308, 1e400, float("nan"), 0.5, 2**63, "", "x", "\ud800",
    "not measured", [], [None], ["x"], {}, {"x": 1}, [[[]]], DEEP, "9" * 5000, [1.5, 2.5],
    "../../../etc/passwd", "/dev/zero", "<script>alert(1)</script>\x1b[31m", 1e-320, [0] * 3000,
)  # fmt: skip
TABLES = ("steps.parquet", "epochs.parquet", "samples.parquet", "layers.parquet")
LINKED = (
    *TABLES, "run.json", "events.jsonl", "events-r1.jsonl", "samples.jsonl", "worker.log",
    "trace.json.gz", "trace-r1.json.gz", "window-0001.json", "window-plan.txt", "estimate.json",
    "steps-r1.parquet", "sampler.log", ".reserve", "checkpoint.safetensors",
)  # fmt: skip
_DTYPES = (
    pl.String, pl.Int8, pl.UInt64, pl.Boolean, pl.Float32, pl.Binary, pl.Date, pl.Duration("us"),
    pl.List(pl.Float64), pl.Struct({"x": pl.Float64}), pl.Null, pl.Decimal(20, 2), pl.Categorical,
)  # fmt: skip
_ODD_FLOATS = (float("nan"), float("inf"), float("-inf"), None, 1e308, -1.0, 0.0, 1e18)

Kind = Callable[[Path, random.Random, Path], str]


def dump_deep(document: Any) -> str:
    """A document as JSON, also one that two changes nested deeper than Python allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        return json.dumps(document)
    finally:
        sys.setrecursionlimit(limit)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the parts of a document stand, the first few of each list."""
    if path:
        yield path
    if len(path) >= _DEEPEST:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value[:4]):
            yield from paths_of(item, (*path, position))


def change_document(document: Any, dice: random.Random) -> str:
    """Replace, remove or add a part of a parsed document, in place."""
    places = list(paths_of(document))
    if not places:
        return "nothing"
    path = dice.choice(places)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    name = ".".join(map(str, path))
    chance = dice.random()
    if isinstance(holder, dict) and chance < 0.25:
        del holder[path[-1]]
        return f"{name} removed"
    value = _fresh(dice.choice(ODD_VALUES))
    if isinstance(holder, dict) and chance < 0.3:
        holder[f"later_{dice.randint(0, 9)}"] = value
        return f"a name added beside {name}"
    holder[path[-1]] = value
    return f"{name} = {str(value)[:40]!r}"


def _fresh(value: Any) -> Any:
    """A copy, since a later change may go into it."""
    if value is not DEEP:
        return copy.deepcopy(value)
    deep: Any = 0
    for _ in range(600):
        deep = [deep]
    return deep


def leaf(run: Path, dice: random.Random, _: Path) -> str:
    """Parts of run.json."""
    if run / "run.json" not in _plain(run, "run.json"):
        return "run.json is no file any more"
    document = json.loads((run / "run.json").read_text())
    done = [change_document(document, dice) for _ in range(dice.randint(1, 3))]
    (run / "run.json").write_text(dump_deep(document))
    return f"run.json: {'; '.join(done)}"


def bytes_of(run: Path, dice: random.Random, _: Path) -> str:
    """Bits flipped, blocks cut out, doubled or zeroed in any file."""
    path = _any_file(run, dice)
    data = bytearray(path.read_bytes() if path.exists() else b"")
    if not data:
        path.write_bytes(dice.randbytes(50))
        return f"{path.name}: noise in an empty file"
    at, length = dice.randrange(len(data)), dice.choice((1, 1, 4, 64, 1000))
    how = dice.choice(("flip", "flip", "zero", "cut", "double", "noise", "digits"))
    if how == "flip":
        for _ in range(dice.randint(1, 5)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif how == "zero":
        data[at : at + length] = b"\0" * len(data[at : at + length])
    elif how == "cut":
        del data[at : at + length]
    elif how == "double":
        data[at:at] = data[at : at + length]
    elif how == "digits":
        data[at:at] = b"7" * 30_000
    else:
        data[at : at + length] = dice.randbytes(length)
    path.write_bytes(data)
    return f"{path.name}: {how} at {at}, {length} bytes"


def power_cut(run: Path, dice: random.Random, _: Path) -> str:
    """Files that end early or in zeros, or were never written, as after a power cut."""
    done = []
    for _ in range(dice.randint(1, 3)):
        path = _any_file(run, dice)
        data = path.read_bytes() if path.exists() else b""
        at = dice.randint(0, len(data))
        how = dice.choice(("cut", "cut", "cut", "zeros", "gone"))
        if how == "gone":
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(data[:at] + (b"\0" * (len(data) - at) if how == "zeros" else b""))
        done.append(f"{path.name} {how} at {at}")
    return "; ".join(done)


def link(run: Path, dice: random.Random, outside: Path) -> str:
    """A file of the directory replaced by a link, a pipe, a device or a folder."""
    name = dice.choice((*LINKED, f".run.json.{os.getpid()}", f".steps.parquet.{os.getpid()}"))
    path = run / name
    how = dice.choice(("secret", "secret", "twin", "dangling", "zero", "pipe", "folder", "self"))
    if how == "twin":
        (outside / name).write_bytes(path.read_bytes() if path.is_file() else b"outside")
    path.unlink(missing_ok=True)
    if how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        targets = {
            "secret": outside / "secret.txt", "twin": outside / name, "self": path,
            "dangling": outside / "new" / name, "zero": Path("/dev/zero"),
        }  # fmt: skip
        path.symlink_to(targets[how])
    return f"{name} is a {how}"


def table(run: Path, dice: random.Random, _: Path) -> str:
    """Columns of a table dropped, renamed, of other types, with values that are none."""
    found = _plain(run, "*.parquet")
    if not found:
        return leaf(run, dice, _)
    path = dice.choice(found)
    try:
        frame = pl.read_parquet(path)
        metadata = dict(pl.read_parquet_metadata(path))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return f"{path.name} is no table any more"
    metadata.pop("ARROW:schema", None)
    done = []
    for _turn in range(dice.randint(1, 2)):
        frame, words = _change_frame(frame, dice)
        done.append(words)
    if metadata.get("trainload") and dice.random() < 0.5:
        document = json.loads(metadata["trainload"])
        done.append(change_document(document, dice))
        metadata["trainload"] = dump_deep(document)
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd", metadata=metadata)
    path.write_bytes(out.getvalue())
    return f"{path.name}: {'; '.join(done)}"


def _change_frame(frame: pl.DataFrame, dice: random.Random) -> tuple[pl.DataFrame, str]:
    if not frame.columns:
        return frame, "no column left"
    column = dice.choice(frame.columns)
    how = dice.choice(
        ("drop", "rename", "type", "value", "value", "value", "empty", "repeat", "odd")
    )
    if how == "drop":
        return frame.drop(column), f"{column} dropped"
    if how == "rename":
        name = dice.choice([n for n in ("x", "", "rank", "t_s2") if n not in frame.columns])
        return frame.rename({column: name}), f"{column} renamed {name!r}"
    if how == "empty":
        return frame.clear(), "no rows"
    if how == "repeat":
        return pl.concat([frame] * dice.randint(2, 40)), "rows repeated"
    if how == "odd":
        return frame.sample(fraction=1.0, shuffle=True, seed=dice.randint(0, 999)), "rows shuffled"
    if how == "type":
        dtype = dice.choice(_DTYPES)
        try:
            other = frame.with_columns(pl.col(column).cast(dtype, strict=False))
        except pl.exceptions.PolarsError:
            other = frame.with_columns(pl.lit(None, dtype).alias(column))
        return other, f"{column} as {dtype}"
    value = dice.choice(_ODD_FLOATS)
    if not frame.height or not frame.schema[column].is_numeric():
        return frame.with_columns(pl.lit(value).alias(column)), f"{column} all {value}"
    values = frame[column].cast(pl.Float64).to_list()
    for _ in range(dice.choice((1, 3, len(values)))):
        values[dice.randrange(len(values))] = value
    return frame.with_columns(pl.Series(column, values)), f"{column} holds {value}"


def line(run: Path, dice: random.Random, _: Path) -> str:
    """Lines of events and samples: keys removed, other values, moved, doubled, joined, torn."""
    found = _plain(run, "*.jsonl")
    if not found:
        return table(run, dice, _)
    path = dice.choice(found)
    lines = path.read_text(errors="replace").split("\n")
    done = []
    for _turn in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines))
        how = dice.choice(("key", "key", "key", "tear", "double", "drop", "move"))
        if how == "key":
            try:
                document = json.loads(lines[at])
            except ValueError:
                document = {}
            done.append(f"line {at}: {change_document(document, dice)}")
            lines[at] = dump_deep(document)
        elif how == "tear":
            lines[at] = lines[at][: dice.randint(0, len(lines[at]))]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "drop" and len(lines) > 1:
            del lines[at]
        else:
            lines.insert(dice.randrange(len(lines)), lines.pop(at))
        done.append(f"{how} line {at}")
    path.write_text("\n".join(lines), errors="surrogateescape")
    return f"{path.name}: {'; '.join(done)}"


def trace(run: Path, dice: random.Random, _: Path) -> str:
    """Events and header of a trace or of a window that was not joined yet."""
    found = [*_plain(run, "trace*.json.gz"), *_plain(run, "window-*.json")]
    if not found:
        return line(run, dice, _)
    path = dice.choice(found)
    packed = path.suffix == ".gz"
    try:
        text = gzip.decompress(path.read_bytes()).decode() if packed else path.read_text()
        document = json.loads(text)
    except (OSError, EOFError, ValueError):
        return f"{path.name} is no trace any more"
    done = [change_document(document, dice) for _turn in range(dice.randint(1, 3))]
    events = document.get("traceEvents") if isinstance(document, dict) else None
    if isinstance(events, list) and events:
        for _turn in range(dice.randint(1, 4)):
            event = dice.choice(events)
            if isinstance(event, dict):
                done.append(change_document(event, dice))
    text = dump_deep(document)
    path.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())
    for stale in _plain(run, "layers.parquet"):
        stale.unlink()  # else the copy would answer for the trace
    return f"{path.name}: {'; '.join(done)}"


def _any_file(run: Path, dice: random.Random) -> Path:
    found = _plain(run, "*")
    return dice.choice(found) if found else run / "new.txt"


def _plain(run: Path, pattern: str) -> list[Path]:
    """Files as they are found in a sound run: no links, pipes or folders."""
    return sorted(p for p in run.glob(pattern) if not p.is_symlink() and p.is_file())


KINDS: dict[str, Kind] = {
    "leaf": leaf, "bytes": bytes_of, "cut": power_cut, "link": link, "table": table, "line": line,
    "trace": trace,
}  # fmt: skip


def mutate(run: Path, dice: random.Random, outside: Path) -> tuple[str, str]:
    """One change, now and then two; the first one's kind, and what was done in words."""
    kinds = [dice.choice(list(KINDS))]
    if dice.random() < 0.15:
        kinds.append(dice.choice(("bytes", "cut", "line")))
    done = [KINDS[kind](run, dice, outside) for kind in kinds if any(run.iterdir())]
    return kinds[0], " | ".join(done)
