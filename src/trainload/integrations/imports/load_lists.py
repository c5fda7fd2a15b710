"""JSON of lists, as study L's monitor left them: one list of readings for each load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.integrations.imports.runs import ImportedRun, ImportOptions, Samples, described
from trainload.integrations.imports.series import quantity, unique_plans
from trainload.integrations.imports.source import digest_of, open_source
from trainload.integrations.imports.units import plan_column
from trainload.record import GivenFigure
from trainload.record.inside import parse_json
from trainload.record.lines import is_number

KIND = "load-lists"
MOST_BYTES = 64 << 20
TIMES = "t_s"
"""A list of this name tells the seconds of each reading."""


def read_load_lists(paths: Sequence[Path], options: ImportOptions) -> Iterator[ImportedRun]:
    """A run for each file, or for each group of lists in it, such as one for each level."""
    for path in paths:
        digest = digest_of(path)
        for place, group in _groups(path):
            yield _run(path, digest, place, group, options)


def _groups(path: Path) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    with open_source(path, MOST_BYTES) as file:
        text = file.read(MOST_BYTES)
    try:
        document = parse_json(text)
    except (ValueError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no JSON: {str(error)[:100]}") from None
    if not isinstance(document, dict) or not document:
        raise UsageError(f'{path} is no JSON object of lists, such as {{"gpu": [0.1, 0.2]}}')
    if all(isinstance(value, dict) for value in document.values()):
        yield from document.items()
    else:
        yield None, document


def _run(
    path: Path, digest: str, place: str | None, group: Mapping[str, Any], options: ImportOptions
) -> ImportedRun:
    lists = {name: value for name, value in group.items() if isinstance(value, list)}
    times = lists.pop(TIMES, None)
    where = f"{path}: {place}" if place else str(path)
    if not lists:
        raise UsageError(f"{where} holds no list of readings")
    if times is None and options.interval_s is None:
        raise UsageError(
            f"{where} tells no times; say how far apart the readings are: --interval SECONDS"
        )
    plans = unique_plans([plan_column(name, options.units) for name in lists])
    figures, labels, raw = _rest(group, options)
    longest = max(map(len, lists.values()))
    short = [name for name, values in lists.items() if len(values) < longest]
    notes = [f"{', '.join(short[:5])} has fewer readings than others: the last are missing"]
    told = described(options, path.stem)
    config = {**told["config"], **({} if place is None else {"group": place})}
    return ImportedRun(
        kind=KIND,
        files={path.name: digest},
        place=place,
        **{**told, "config": config},
        samples=Samples(
            quantities=tuple(quantity(plan, path.name) for plan in plans),
            rows=_rows(list(lists.values()), [p.factor for p in plans], times, options.interval_s),
        ),
        figures=figures,
        raw=(*raw, *(plan.source for plan in plans if plan.raw)),
        labels=labels,
        notes=tuple(notes) if short else (),
    )


def _rest(
    group: Mapping[str, Any], options: ImportOptions
) -> tuple[dict[str, GivenFigure], dict[str, str], list[str]]:
    """Single numbers as figures, texts as labels."""
    figures: dict[str, GivenFigure] = {}
    labels: dict[str, str] = {}
    raw: list[str] = []
    for name, value in group.items():
        if is_number(value):
            plan = plan_column(name, options.units)
            figures[plan.column] = GivenFigure(value=float(value) * plan.factor)
            raw += [name] if plan.raw else []
        elif isinstance(value, str):
            labels[name] = value
    return figures, labels, raw


def _rows(
    lists: Sequence[Sequence[Any]],
    factors: Sequence[float],
    times: Sequence[Any] | None,
    interval_s: float | None,
) -> Iterator[tuple[float, list[float | None]]]:
    for at in range(max(map(len, lists))):
        if times is None:
            assert interval_s is not None
            t_s = at * interval_s
        elif at < len(times) and is_number(times[at]):
            t_s = float(times[at])
        else:
            continue
        yield (
            t_s,
            [
                float(values[at]) * factor if at < len(values) and is_number(values[at]) else None
                for values, factor in zip(lists, factors, strict=True)
            ],
        )
