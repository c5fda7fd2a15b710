"""Designs: from factors and levels to the cells of a study; pure, the same for the same seed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainload.errors import StudyError
from trainload.study.cells import Cell, make_cell
from trainload.study.factors import Factor, Level
from trainload.study.file import StudyFile
from trainload.study.rules import RuleError

Levels = Mapping[str, Level]
MOST_CELLS = 100_000
FOLD = "fold"


def design_cells(study: StudyFile) -> list[Cell]:
    """The cells of a study in the order of its file; StudyError where there are none or too many.

    Cells whose content is the same are one cell.
    """
    kind, folds = study.keys.design.kind, study.keys.folds
    base = base_levels(study)
    if kind == "one-at-a-time":
        combined: Iterable[Levels] = _one_at_a_time(study, base)
    elif kind == "random":
        combined = _random(study)
    elif kind == "latin-hypercube":
        combined = _latin_hypercube(study)
    else:
        combined = _grid(study)
    if kind == "folds":
        assert study.keys.design.folds is not None, "checked when the file was read"
        combined = _folded(study, combined, study.keys.design.folds)
    elif folds is not None and folds.of == "all":
        combined = _folded(study, combined, folds.count)
    elif folds is not None:
        combined = itertools.chain(combined, _folded(study, [base], folds.count))
    found: dict[str, Cell] = {}
    for levels in combined:
        if not _keeps(study, levels):
            continue
        cell = make_cell(study.keys.workload, levels, base if kind == "one-at-a-time" else None)
        found.setdefault(cell.identity, cell)
        if len(found) > MOST_CELLS:
            raise study.source.wrong(
                ("factors",), f"more than {MOST_CELLS:,} cells; draw a sample with `design: random`"
            )
    if not found:
        raise study.source.wrong(("where",), "no cell keeps these rules")
    return list(found.values())


def base_levels(study: StudyFile) -> dict[str, Level]:
    """The level of each factor from which one at a time departs."""
    keys = study.keys
    for name in keys.base:
        if name not in keys.factors:
            raise study.source.wrong(("base", name), "there is no such factor")
    found = {}
    for factor in study.factors:
        if factor.range is not None:
            continue
        said = keys.base.get(factor.name, keys.workload.get(factor.name, _NOTHING))
        chosen = next((one for one in factor.levels if _same(one.label, said)), None)
        if chosen is None and factor.name in keys.base:
            raise study.source.wrong(("base", factor.name), f"{said!r} is none of its levels")
        found[factor.name] = chosen or factor.levels[0]
    return found


_NOTHING: Any = object()


def _same(label: Any, said: Any) -> bool:
    return type(label) is type(said) and bool(label == said)


def _keeps(study: StudyFile, levels: Levels) -> bool:
    labels = {name: level.label for name, level in levels.items()}
    labels.setdefault(FOLD, None)
    for number, rule in enumerate(study.where):
        try:
            if not rule.holds(labels):
                return False
        except RuleError as error:
            raise study.source.wrong(("where", number), str(error)) from None
    return True


def _grid(study: StudyFile) -> Iterator[Levels]:
    names = [factor.name for factor in study.factors]
    count = math.prod(len(factor.levels) for factor in study.factors)
    if count > 100 * MOST_CELLS:
        raise study.source.wrong(
            ("factors",), f"{count:,} combinations; draw a sample with `design: random`"
        )
    for levels in itertools.product(*(factor.levels for factor in study.factors)):
        yield dict(zip(names, levels, strict=True))


def _one_at_a_time(study: StudyFile, base: Levels) -> Iterator[Levels]:
    yield base
    for factor in study.factors:
        for level in factor.levels:
            yield {**base, factor.name: level}


def _random(study: StudyFile) -> Iterator[Levels]:
    """So many different combinations as asked for, or as there are."""
    chance = random.Random(f"random-{study.keys.seed}")
    wanted = study.keys.design.cells or 1
    seen: set[tuple[str, ...]] = set()
    for _ in range(100 * wanted):
        if len(seen) == wanted:
            return
        levels = {factor.name: _take(factor, chance.random()) for factor in study.factors}
        mark = tuple(repr(level.label) for level in levels.values())
        if mark not in seen and _keeps(study, levels):
            seen.add(mark)
            yield levels


def _latin_hypercube(study: StudyFile) -> Iterator[Levels]:
    """Each factor's span in as many equal parts as cells, one draw from each (McKay 1979)."""
    chance = random.Random(f"latin-hypercube-{study.keys.seed}")
    wanted = study.keys.design.cells or 1
    columns: dict[str, Sequence[Level]] = {}
    for factor in study.factors:
        parts = [(part + chance.random()) / wanted for part in range(wanted)]
        chance.shuffle(parts)
        columns[factor.name] = [_take(factor, share) for share in parts]
    for number in range(wanted):
        yield {name: column[number] for name, column in columns.items()}


def _take(factor: Factor, share: float) -> Level:
    """The level at a share in [0, 1) of the factor's span."""
    span = factor.range
    if span is None:
        return factor.levels[min(int(share * len(factor.levels)), len(factor.levels) - 1)]
    if span.whole and span.scale == "linear":
        return factor.drawn(math.floor(span.low + share * (span.high - span.low + 1)))
    if span.scale == "log":
        low, high = math.log(span.low), math.log(span.high)
        value = math.exp(low + share * (high - low))
    else:
        value = span.low + share * (span.high - span.low)
    return factor.drawn(round(value) if span.whole else float(f"{value:.6g}"))


def _folded(study: StudyFile, combined: Iterable[Levels], count: int) -> Iterator[Levels]:
    if study.keys.workload.get("script") is not None:
        raise study.source.wrong(("folds",), "a script divides its data itself; vary an argument")
    if any(factor.name in (FOLD, "folds") for factor in study.factors):
        raise StudyError(f"{study.source.place}: `fold` is a factor already; leave `folds` out")
    path = ("folds",) if study.keys.folds is not None else ("design",)
    for levels in combined:
        for fold in range(count):
            held = Level(label=fold, sets={"folds": count, "fold": fold}, path=path)
            yield {**levels, FOLD: held}
