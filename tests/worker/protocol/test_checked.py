"""The one checker, strict and lenient: what fits, what is refused, and what becomes missing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typed_values import JSON_VALUES, values_of

from trainload_worker.protocol.checked import (
    Bounds,
    CheckError,
    build_checked,
    check_value,
    not_written,
    parse_word,
    read_leniently,
    suggest,
    to_json,
)
from trainload_worker.protocol.data import Data
from trainload_worker.protocol.graph import GraphSpec
from trainload_worker.protocol.spec import (
    LaunchSpec,
    ScriptSpec,
    TraceSpec,
    TrainSpec,
    dump_spec,
    parse_spec,
)


@dataclass(frozen=True)
class Part:
    """A part that cannot be without its name."""

    name: str
    size: int | None = None


@dataclass(frozen=True)
class Mild:
    """A part of which nothing needs to be known."""

    size: int | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Holder:
    """A part around a part that cannot be missing."""

    part: Part
    note: str | None = None


@dataclass(frozen=True)
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclass(frozen=True)
class Square:
    side: float
    kind: Literal["square", "box"] = "square"


@dataclass(frozen=True)
class Whole:
    """One field of each sort."""

    count: int | None = None
    share: Annotated[float, Bounds(low=0, high=1)] = 0.5
    part: Part | None = None
    mild: Mild = Mild()
    holder: Holder | None = None
    parts: tuple[Part, ...] = ()
    holders: tuple[Holder, ...] = ()
    numbers: tuple[float, ...] = ()
    losses: tuple[float | None, ...] = ()
    pair: tuple[int, int] = (0, 0)
    sizes: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None
    shape: Circle | Square | None = None
    apart: Part | Holder | None = None
    origin: str = not_written(str)


def build(document: Any) -> Whole:
    return build_checked(Whole, document, "it")


def read(document: Any) -> tuple[Whole, list[str]]:
    notes: list[str] = []
    return read_leniently(Whole, document, notes), notes


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], r"it: expected an object, got \[\]"),
        ({"cuont": 1}, "it: unknown name 'cuont'; did you mean 'count'?"),
        ({"origin": "x"}, "it: unknown name 'origin'"),
        ({"count": 1.0}, r"it\.count: expected a whole number, got 1\.0"),
        ({"count": True}, r"it\.count: expected a whole number, got True"),
        ({"share": "1"}, r"it\.share: expected a number, got '1'"),
        ({"share": False}, r"it\.share: expected a number, got False"),
        ({"share": None}, r"it\.share: expected a number, got None"),
        ({"part": {}}, r"it\.part: 'name' is missing"),
        ({"part": "x"}, r"it\.part: expected an object, got 'x'"),
        ({"part": {"name": 1}}, r"it\.part\.name: expected a text, got 1"),
        ({"part": {"name": "a", "siz": 1}}, r"it\.part: unknown name 'siz'; did you mean 'size'\?"),
        ({"holder": {"part": {"name": "a", "size": "b"}}}, r"it\.holder\.part\.size: expected a"),
        ({"parts": [{"name": "a"}, {}]}, r"it\.parts\[1\]: 'name' is missing"),
        ({"parts": "ab"}, r"it\.parts: expected a list, got 'ab'"),
        ({"parts": {"name": "a"}}, r"it\.parts: expected a list"),
        ({"numbers": [1.0, "2"]}, r"it\.numbers\[1\]: expected a number, got '2'"),
        ({"losses": [None, "2"]}, r"it\.losses\[1\]: expected a number, got '2'"),
        ({"pair": [1]}, r"it\.pair: expected 2 values, got 1"),
        ({"pair": [1, 2, 3]}, r"it\.pair: expected 2 values, got 3"),
        ({"pair": [1, None]}, r"it\.pair\[1\]: expected a whole number"),
        ({"sizes": {"a": 1, "b": "2"}}, r"it\.sizes\.b: expected a whole number, got '2'"),
        ({"sizes": []}, r"it\.sizes: expected an object, got \[\]"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_that_says_where(document, words):
    with pytest.raises(CheckError, match=words) as caught:
        build(document)
    assert "\n" not in str(caught.value)


def test_what_fits_arrives_as_its_type():
    found = build(
        {
            "count": 10**400,
            "share": 1,
            "part": {"name": "a"},
            "parts": [{"name": "b", "size": 2}],
            "numbers": [1, 2.5],
            "losses": [None, 0.0, 3],
            "pair": [1, 2],
            "sizes": {"a": 1},
            "anything": {"x": [1]},
        }
    )
    assert found.count == 10**400 and found.share == 1.0 and isinstance(found.share, float)
    assert found.part == Part("a") and found.parts == (Part("b", 2),)
    assert found.numbers == (1.0, 2.5) and all(isinstance(n, float) for n in found.numbers)
    assert found.losses == (None, 0.0, 3.0)
    assert found.pair == (1, 2) and found.sizes == {"a": 1} and found.anything == {"x": [1]}


def test_a_value_that_is_one_already_is_taken_as_it_is():
    part = Part("a")
    assert build({"part": part}).part is part


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), 10**400, -(10**400), 1 << 1024]
)
@pytest.mark.parametrize("name", ["share", "numbers", "losses"])
def test_numbers_that_are_none_are_refused_wherever_they_stand(value, name):
    document = {name: value if name == "share" else [0.0, value]}
    with pytest.raises(CheckError, match="is not a finite number"):
        build(document)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        (Bounds(low=1), (1, 2, 10**400), (0, -1, -(10**400)), "must be at least 1"),
        (Bounds(high=3), (3, -5, -(10**400)), (4, 10**400), "must be at most 3"),
        (Bounds(above=0), (1,), (0, -1), "must be above 0"),
        (Bounds(below=4), (3,), (4, 5), "must be below 4"),
    ],
)
def test_bounds_of_whole_numbers(bounds, inside, outside, words):
    for value in inside:
        assert check_value(Annotated[int, bounds], value, "n") == value
    for value in outside:
        with pytest.raises(CheckError, match=words):
            check_value(Annotated[int, bounds], value, "n")


def test_bounds_of_numbers_inside_options_and_lists():
    share = Annotated[float, Bounds(above=0, below=1)]
    assert check_value(share | None, None, "n") is None
    assert check_value(tuple[share, ...], [0.5, 0.25], "n") == (0.5, 0.25)
    with pytest.raises(CheckError, match=r"n\[1\]: 1\.0 must be below 1"):
        check_value(tuple[share, ...], [0.5, 1], "n")
    with pytest.raises(CheckError, match=r"n: 0\.0 must be above 0"):
        check_value(share | None, 0, "n")


@pytest.mark.parametrize("value", [True, 1.0, "1", None, [1]])
def test_words_of_choice_are_taken_with_their_type(value):
    with pytest.raises(CheckError, match="is not one of 1, 2"):
        check_value(Literal[1, 2], value, "format")
    assert check_value(Literal[1, 2], 2, "format") == 2


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"kind": "circle", "radius": 1}, Circle(1.0)),
        ({"kind": "square", "side": 2}, Square(2.0)),
        ({"kind": "box", "side": 2}, Square(2.0, "box")),
    ],
)
def test_a_kind_is_chosen_by_its_word(document, found):
    assert build({"shape": document}).shape == found
    assert read({"shape": document}) == (Whole(shape=found), [])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"kind": "oval"}, r"it\.shape\.kind: 'oval' is not one of circle, square, box"),
        ({"side": 2}, r"it\.shape\.kind: None is not one of circle, square, box"),
        ({"kind": ["circle"]}, r"it\.shape\.kind: \['circle'\] is not one of"),
        ({"kind": "circle"}, r"it\.shape: 'radius' is missing"),
        ({"kind": "circle", "side": 1}, r"it\.shape: unknown name 'side'"),
        (7, r"it\.shape: expected an object, got 7"),
    ],
)
def test_a_kind_that_is_none_is_told(document, words):
    with pytest.raises(CheckError, match=words):
        build({"shape": document})
    found, notes = read({"shape": document, "count": 3})
    if document == {"kind": "circle", "side": 1}:  # the unknown name is passed over
        words = r"it\.shape: 'radius' is missing"
    assert found == Whole(count=3)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("it." + notes[0])
    assert len(notes) == 1


def test_without_words_a_kind_is_chosen_by_what_it_needs():
    assert build({"apart": {"name": "a"}}).apart == Part("a")
    assert build({"apart": {"part": {"name": "a"}}}).apart == Holder(Part("a"))
    with pytest.raises(CheckError, match=r"it\.apart: none of the kinds it may be: Part, Holder"):
        build({"apart": {"size": 3}})
    found, notes = read({"apart": {"size": 3}})
    assert found.apart is None and notes == ["apart: none of the kinds it may be: Part, Holder"]


@pytest.mark.parametrize(
    ("document", "found", "notes"),
    [
        ({"cuont": 1, "mild": {"more": 2}}, Whole(), []),
        ({"count": "x"}, Whole(), ["count: expected a whole number, got 'x'"]),
        (
            {"count": 2, "part": {"name": "a", "size": "b"}},
            Whole(count=2, part=Part("a")),
            ["part.size: expected a whole number, got 'b'"],
        ),
        # What cannot be missing takes what is around it along, as far as that can be missing.
        ({"part": {"name": 1}}, Whole(), ["part.name: expected a text, got 1"]),
        ({"part": {"size": 1}}, Whole(), ["part: 'name' is missing"]),
        ({"holder": {"part": {}, "note": "x"}}, Whole(), ["holder.part: 'name' is missing"]),
        (
            {"holder": {"part": {"name": "a", "size": []}, "note": 1}},
            Whole(holder=Holder(Part("a"))),
            [
                "holder.part.size: expected a whole number, got []",
                "holder.note: expected a text, got 1",
            ],
        ),
        ({"mild": 7}, Whole(), ["mild: expected an object, got 7"]),
        (
            {"mild": {"size": "x", "words": ["a"]}},
            Whole(mild=Mild(words=("a",))),
            ["mild.size: expected a whole number, got 'x'"],
        ),
        # A part of its own is left out of a list; a list of numbers stands or falls as a whole.
        (
            {"parts": [{"name": "a"}, 3, {"name": "b", "size": "x"}, {}]},
            Whole(parts=(Part("a"), Part("b"))),
            [
                "parts[1]: expected an object, got 3",
                "parts[2].size: expected a whole number, got 'x'",
                "parts[3]: 'name' is missing",
            ],
        ),
        (
            {"holders": [{"part": {"name": 0}}, {"part": {"name": "a"}}]},
            Whole(holders=(Holder(Part("a")),)),
            ["holders[0].part.name: expected a text, got 0"],
        ),
        ({"parts": None}, Whole(), ["parts: expected a list, got None"]),
        ({"numbers": [1, "2", 3]}, Whole(), ["numbers[1]: expected a number, got '2'"]),
        ({"mild": {"words": ["a", 1]}}, Whole(), ["mild.words[1]: expected a text, got 1"]),
        (
            {"sizes": {"a": 1, "b": None, "c": 3}},
            Whole(sizes={"a": 1, "c": 3}),
            ["sizes.b: expected a whole number, got None"],
        ),
        ({"sizes": 3}, Whole(), ["sizes: expected an object, got 3"]),
        ({"numbers": [float("nan")]}, Whole(), ["numbers[0]: nan is not a finite number"]),
    ],
)
def test_what_is_wrong_is_missing_and_told(document, found, notes):
    assert read(document) == (found, notes)


@pytest.mark.parametrize("document", [{"share": None}, {"share": 2.0}, {"pair": [1]}, [], None])
def test_where_nothing_can_be_missing_the_reading_fails(document):
    with pytest.raises(CheckError):
        read(document)


@given(
    JSON_VALUES | st.dictionaries(st.sampled_from(list(Whole.__dataclass_fields__)), JSON_VALUES)
)
def test_any_json_is_read_or_refused_and_never_half(document):
    notes: list[str] = []
    try:
        found = read_leniently(Whole, document, notes)
    except CheckError:
        with pytest.raises(CheckError):
            build(document)
        return
    # What could be read says the same when it is written and read strictly.
    assert build(to_json(found)) == found
    try:
        strict = build(document)
    except CheckError as error:
        assert notes or "unknown name" in str(error)
    else:
        assert strict == found and not notes


SPECS = (TrainSpec, ScriptSpec, LaunchSpec, TraceSpec)


@pytest.mark.parametrize("kind", SPECS, ids=lambda kind: kind.__name__)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_specification_comes_back_equal(kind, data):
    spec = data.draw(values_of(kind))
    assert parse_spec(dump_spec(spec)) == spec
    document = json.loads(dump_spec(spec))
    assert build_checked(kind, document, "it") == spec
    notes: list[str] = []
    assert read_leniently(kind, document, notes) == spec and notes == []


@pytest.mark.parametrize("kind", [*Data.__args__, GraphSpec], ids=lambda kind: kind.__name__)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_part_of_a_specification_comes_back_equal(kind, data):
    value = data.draw(values_of(kind))
    document = json.loads(json.dumps(to_json(value), allow_nan=False))
    assert build_checked(kind, document, "it") == value
    if kind is not GraphSpec:
        assert check_value(Data, document, "data") == value


def test_what_is_not_to_be_written_is_neither_written_nor_read():
    whole = replace(Whole(count=1), origin="here")
    assert "origin" not in to_json(whole)
    assert whole == Whole(count=1) and whole.origin == "here"
    found, notes = read({"count": 1, "origin": "there"})
    assert found.origin == "" and notes == []


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "1_000", 1000),
        (float, "1e-4", 1e-4),
        (bool, "Yes", True),
        (bool, "0", False),
        (int | None, "none", None),
        (int | None, "7", 7),
        (tuple[int, ...], "1, 2", (1, 2)),
        (Literal["a", "b"], "b", "b"),
        (Literal[1, 2], "2", 2),
        (str, "none", "none"),
        (Annotated[int, Bounds(low=1)], "1", 1),
    ],
)
def test_words_become_values(annotation, text, value):
    found = parse_word(annotation, text, "--set x")
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text", "words"),
    [
        (int, "1.5", "--set x: '1.5' is not a whole number"),
        (float, "much", "--set x: 'much' is not a number"),
        (float, "nan", "--set x: nan is not a finite number"),
        (float, "1e999", "--set x: inf is not a finite number"),
        (bool, "maybe", "--set x: 'maybe' is not true or false"),
        (Annotated[int, Bounds(low=1)], "0", "--set x: 0 must be at least 1"),
        (Literal["a", "b"], "c", "--set x: 'c' is not one of a, b"),
        (tuple[int, ...], "1,x", "--set x: 'x' is not a whole number"),
    ],
)
def test_words_that_do_not_fit_are_told(annotation, text, words):
    with pytest.raises(CheckError, match=words):
        parse_word(annotation, text, "--set x")


def test_the_nearest_known_name_is_suggested():
    assert suggest("epoch", ["epochs", "batch_size"]) == "; did you mean 'epochs'?"
    assert suggest("xyz", ["b", "a"]) == "; known: a, b"
