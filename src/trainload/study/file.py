"""The study file as types, and its reading: workload, factors, design, repetitions, order, limits.

Checks what can be known from the file alone; this machine is asked by `checking`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from trainload.errors import StudyError
from trainload.intervals import FEWEST
from trainload.run.settle import CoolDown
from trainload.study.factors import Factor, read_factor, split_word
from trainload.study.keys import complain_unknown, known_hints
from trainload.study.located import Located, parse_yaml, read_text
from trainload.study.rules import Rule, RuleError, parse_rule
from trainload.study.xml_file import read_xml
from trainload_worker.protocol.checked import Bounds, CheckError, check_value, suggest

Count = Annotated[int, Bounds(low=1, high=10**6)]
Kind = Literal["grid", "one-at-a-time", "random", "latin-hypercube", "folds"]
QUICK = "-quick"


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which combinations of levels become cells."""

    kind: Kind = "grid"
    cells: Count | None = None
    """How many a random or Latin-hypercube sample draws."""
    folds: Annotated[int, Bounds(low=2, high=1000)] | None = None
    """Parts of the data, each held out once, for the design `folds`."""


@dataclass(frozen=True, kw_only=True)
class Folds:
    """Cross-validation: the groups of the data in so many parts, each held out once."""

    count: Annotated[int, Bounds(low=2, high=1000)] = 5
    of: Literal["base", "all"] = "base"
    """The base alone, or every cell."""


@dataclass(frozen=True, kw_only=True)
class StoppingOptions:
    """When a cell has been repeated enough, in place of a fixed number of repetitions."""

    metric: str | None = None
    """Figure whose interval must become narrow, such as step_s."""
    rank_by: str | None = None
    """Figure by which cells compete: those that can no longer win are not repeated."""
    width: Annotated[float, Bounds(above=0)] = 0.05
    """Width of the 95 % interval, or the difference that matters, as a share of the median."""
    minimum: Annotated[int, Bounds(low=FEWEST, high=1000)] = FEWEST
    maximum: Annotated[int, Bounds(low=FEWEST, high=1000)] = 30
    warmup: Annotated[int, Bounds(low=0, high=100)] = 0
    """First repetitions of each cell that never count; `minimum` and `maximum` come on top."""
    top: Count = 1
    """How many best cells a ranking looks for."""
    highest: bool = False
    """Whether a higher figure is the better one in a ranking."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where a session of `study run` ends although cells are left; the next one goes on."""

    time_s: Annotated[float, Bounds(above=0)] | None = None
    runs: Count | None = None


@dataclass(frozen=True, kw_only=True)
class OtherLoad:
    """Other programs on the machine: from which load on a run is repeated, and how often."""

    limit_fraction: Annotated[float, Bounds(above=0, high=1)] = 0.25
    repeats: Annotated[int, Bounds(low=0, high=100)] = 1


@dataclass(frozen=True, kw_only=True)
class StudyKeys:
    """The keys of a study file; `workload`, `factors`, `base` and `quick` are read further."""

    name: str
    """Name of its folder: letters, digits, dots, dashes."""
    description: str = ""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """What all cells have in common: the keys of a run file."""
    factors: Mapping[str, Any] = field(default_factory=dict)
    """What varies: a list of levels each, or `low` and `high` for a sample."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """The level of each factor from which one at a time departs; default the workload's, or the
    first."""
    design: Design = Design()
    where: tuple[str, ...] = ()
    """Rules that a cell must keep, such as `hidden_units * batch_size <= 65536`."""
    folds: Folds | None = None
    repetitions: Count = 1
    vary_seed: bool = False
    """Whether each repetition adds its number to the seed."""
    stopping: StoppingOptions | None = None
    order: Literal["blocks", "file"] = "blocks"
    """`blocks`: each repetition a block of all cells, shuffled; `file`: blocks, not shuffled."""
    seed: Annotated[int, Bounds(low=0)] = 0
    """Of the order, and of samples."""
    priority: tuple[str, ...] = ()
    """Rules of the cells that come first within a block, the weightiest first."""
    retries: Annotated[int, Bounds(low=0, high=100)] = 1
    """How often a failed cell is tried again."""
    limits: Limits = Limits()
    cool_down: CoolDown = CoolDown()
    other_load: OtherLoad = OtherLoad()
    untrusted_repeats: Annotated[int, Bounds(low=0, high=100)] = 1
    """How often a run is repeated whose record contradicts itself."""
    drop_caches: bool = False
    """Whether the system's file caches are dropped before each run; needs root."""
    absent: Literal["error", "skip"] = "error"
    """What becomes of levels that this machine does not have."""
    unfit: Literal["run", "skip"] = "run"
    """What becomes of cells that surely need more memory than there is."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Keys that take their place with --quick."""


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """A study as its file describes it."""

    keys: StudyKeys
    factors: tuple[Factor, ...]
    where: tuple[Rule, ...]
    priority: tuple[Rule, ...]
    source: Located
    text: str
    """The file as it was read, for the copy beside the runs."""
    words: tuple[str, ...] = ()
    """Factors added on the command line."""
    quick: bool = False

    @property
    def name(self) -> str:
        """The study's name, and its folder's."""
        return self.keys.name


def shipped_studies() -> dict[str, str]:
    """Name -> text of each study that comes with the product."""
    found = sorted(_shipped_folder().iterdir(), key=lambda one: one.name)
    return {
        one.name.removesuffix(".yaml"): one.read_text(encoding="utf-8")
        for one in found
        if one.name.endswith(".yaml")
    }


def _shipped_folder() -> Path:
    return Path(str(resources.files("trainload.study"))) / "shipped"


def load_study(what: str | Path, *, words: Sequence[str] = (), quick: bool = False) -> StudyFile:
    """The study of a file or of a shipped name; StudyError names file, line and key."""
    path = Path(what)
    if path.is_dir():
        raise StudyError(f"{what} is a folder; give the study's file, or its shipped name")
    if path.exists() or path.suffix:
        if not path.exists():
            raise StudyError(f"no such study file: {what}")
        return parse_study(read_text(path), str(what), words=words, quick=quick)
    known = shipped_studies()
    if str(what) not in known:
        raise StudyError(f"no study file and no shipped study {what}{suggest(str(what), known)}")
    return parse_study(
        known[str(what)], f"{what}.yaml", words=words, quick=quick, beside=_shipped_folder()
    )


def parse_study(
    text: str,
    place: str,
    *,
    words: Sequence[str] = (),
    quick: bool = False,
    beside: Path | None = None,
) -> StudyFile:
    """As `load_study`, from a text; `place` is what messages call it.

    A script is looked for in the folder `beside`; None leaves its path as it is.
    """
    source = read_xml(text, place) if place.endswith(".xml") else parse_yaml(text, place)
    values, lines = dict(source.value), dict(source.lines)
    if quick:
        _take_quick(values, lines, source)
    for word in words:
        name, levels = split_word(word)
        if not isinstance(values.setdefault("factors", {}), dict):
            break  # said below, with its line
        values["factors"] = {**values["factors"], name: levels}
        lines[("factors", name)] = 0
        lines.update({("factors", name, number): 0 for number in range(len(levels))})
    source = Located(place=place, value=values, lines=lines)
    _normalise(values)
    if beside is not None and isinstance(values.get("workload"), dict):
        script = values["workload"].get("script")
        if isinstance(script, str):
            values["workload"]["script"] = str(beside / script)
    keys = source.build(StudyKeys, values)
    _check_keys(keys, source)
    factors = tuple(read_factor(name, keys, source) for name in keys.factors)
    labels = {factor.name: None for factor in factors} | {"fold": None}
    return StudyFile(
        keys=keys,
        factors=factors,
        where=_rules("where", keys.where, labels, source),
        priority=_rules("priority", keys.priority, labels, source),
        source=source,
        text=text,
        words=tuple(words),
        quick=quick,
    )


def _take_quick(values: dict[str, Any], lines: dict[Any, int], source: Located) -> None:
    """Put the keys of `quick` in the place of their namesakes; their lines come along."""
    quick = values.get("quick")
    if not quick:
        raise StudyError(f"{source.place}: --quick: the file has no section `quick`")
    if not isinstance(quick, dict):
        raise source.wrong(("quick",), "expected keys with values")
    for name, value in quick.items():
        if name in ("name", "quick"):
            raise source.wrong(("quick", name), "cannot be changed by --quick")
        merged = name in ("workload", "factors", "base") and isinstance(values.get(name), dict)
        if merged and isinstance(value, dict):
            values[name] = {**values[name], **value}
        else:
            values[name] = value
    moved = {path[1:]: line for path, line in lines.items() if path[:1] == ("quick",) and path[1:]}
    lines.update(moved)
    if isinstance(values.get("name"), str):
        values["name"] += QUICK


def _normalise(values: dict[str, Any]) -> None:
    """Short ways to write a key, written out: what is no short way is left to the checker."""
    if isinstance(values.get("design"), str):
        values["design"] = {"kind": values["design"]}
    for name in ("where", "priority"):
        if isinstance(values.get(name), str):
            values[name] = [values[name]]
    if type(values.get("folds")) is int:
        values["folds"] = {"count": values["folds"]}
    if values.get("cool_down") is False:
        values["cool_down"] = {"limit_s": 0}
    if values.get("other_load") is False:
        values["other_load"] = {"repeats": 0}
    for name in ("factors", "workload", "base", "quick"):
        if name in values and values[name] is None:
            values[name] = {}
    if isinstance(values.get("workload"), dict):
        values["workload"] = plain_workload(values["workload"])


def plain_workload(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as a list of words and variables as texts, however they were written."""
    from trainload.study.factors import as_arguments, as_text

    plain = dict(values)
    if "arguments" in plain:
        plain["arguments"] = as_arguments(plain["arguments"])
    if isinstance(plain.get("environment"), dict):
        plain["environment"] = {key: as_text(one) for key, one in plain["environment"].items()}
    return plain


def _check_keys(keys: StudyKeys, source: Located) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", keys.name):
        raise source.wrong(("name",), f"{keys.name!r}: letters, digits, dots and dashes alone")
    check_workload(keys.workload, source, ("workload",), set(keys.factors))
    kind, cells = keys.design.kind, keys.design.cells
    if kind in ("random", "latin-hypercube") and cells is None:
        raise source.wrong(("design",), f"{kind} needs a number: {{kind: {kind}, cells: 20}}")
    if kind not in ("random", "latin-hypercube") and cells is not None:
        raise source.wrong(("design", "cells"), f"a {kind} has the cells that its levels make")
    if (kind == "folds") != (keys.design.folds is not None):
        raise source.wrong(("design",), "write folds as {kind: folds, folds: 5}")
    if kind == "folds" and keys.folds is not None:
        raise source.wrong(("folds",), "the design folds has its own number of folds")
    stopping = keys.stopping
    if stopping is None:
        return
    if (stopping.metric is None) == (stopping.rank_by is None):
        raise source.wrong(("stopping",), "give one of `metric` and `rank_by`")
    if stopping.maximum < stopping.minimum:
        raise source.wrong(("stopping", "maximum"), "lies below the minimum")
    if ("repetitions",) in source.lines:
        raise source.wrong(("repetitions",), "`stopping` decides how often; leave one of them out")


def check_workload(
    values: Mapping[str, Any], source: Located, at: tuple[str, ...], varied: set[str]
) -> None:
    """Each key exists and has its type; `varied` are named as factors, `model` among them maybe."""
    both = [name for name in ("model", "script") if values.get(name) is not None]
    if len(both) == 2:
        raise source.wrong((*at, "script"), "a run has a model or a script, not both")
    if not both and not varied & {"model", "script"} and not at == ("workload",):
        raise source.wrong(at, "say what is trained: `model: mlp` or `script: train.py`")
    hints = known_hints({} if "model" in varied else values)
    for name, value in values.items():
        if name not in hints:
            raise source.wrong((*at, name), complain_unknown(name, values))
        try:
            check_value(hints[name], value, "")
        except CheckError as error:
            raise source.wrong((*at, name), str(error)) from None


def _rules(
    key: str, texts: Sequence[str], names: Mapping[str, Any], source: Located
) -> tuple[Rule, ...]:
    found = []
    for number, text in enumerate(texts):
        try:
            found.append(parse_rule(text, names))
        except RuleError as error:
            raise source.wrong((key, number), str(error)) from None
    return tuple(found)
