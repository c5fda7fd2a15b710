"""Designs, cells and their order: the same file gives the same cells, each known by its content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.errors import StudyError
from trainload.study import load_study, parse_study
from trainload.study.design import base_levels, design_cells
from trainload.study.rules import RuleError, parse_rule
from trainload.study.schedule import next_block, order_block

HEAD = "name: s\nworkload: {model: mlp, framework: fake}\n"
GRID = f"{HEAD}factors:\n  hidden_units: [64, 128]\n  batch_size: [64, 256]\n"


def cells_of(text, **options):
    return design_cells(parse_study(text, "s.yaml", **options))


def labels(cells):
    return [tuple(cell.factors.values()) for cell in cells]


def test_a_grid_is_every_combination():
    assert labels(cells_of(GRID)) == [(64, 64), (64, 256), (128, 64), (128, 256)]
    assert cells_of(GRID)[1].title == "hidden_units=64 batch_size=256"
    assert [cell.title for cell in cells_of(HEAD)] == ["mlp"]


def test_one_at_a_time_departs_from_the_base():
    text = GRID + "design: one-at-a-time\nbase: {hidden_units: 128}\n"
    found = cells_of(text)
    assert labels(found) == [(128, 64), (64, 64), (128, 256)]
    assert [cell.title for cell in found] == ["base", "hidden_units=64", "batch_size=256"]
    folded = cells_of(f"{text}folds: 2\n")
    assert [cell.title for cell in folded[3:]] == ["base fold=0", "base fold=1"]


def test_the_base_is_the_workloads_where_it_is_a_level():
    text = (
        "name: s\nworkload: {model: mlp, batch_size: 256}\n"
        "factors: {hidden_units: [64, 128], batch_size: [64, 256]}\n"
    )
    found = base_levels(parse_study(text, "s.yaml"))
    assert {name: level.label for name, level in found.items()} == {
        "hidden_units": 64,
        "batch_size": 256,
    }


def test_a_rule_keeps_a_subset():
    text = GRID + "where: hidden_units * batch_size <= 16384\n"
    assert labels(cells_of(text)) == [(64, 64), (64, 256), (128, 64)]
    with pytest.raises(StudyError, match="no cell keeps these rules"):
        cells_of(GRID + "where: batch_size < 1\n")


def test_random_draws_so_many_different_cells():
    text = GRID + "design: {kind: random, cells: 3}\n"
    found = labels(cells_of(text))
    assert len(set(found)) == 3 and found == labels(cells_of(text))
    assert found != labels(cells_of(text + "seed: 7\n"))
    assert len(cells_of(GRID + "design: {kind: random, cells: 50}\n")) == 4


@given(st.integers(2, 30), st.integers(0, 5))
def test_a_latin_hypercube_takes_each_part_once(cells, seed):
    text = (
        f"{HEAD}seed: {seed}\ndesign: {{kind: latin-hypercube, cells: {cells}}}\nfactors:\n"
        "  learning_rate: {low: 1e-5, high: 1e-1, scale: log}\n"
        "  weight_decay: {low: 0, high: 1}\n"
    )
    drawn = sorted(cell.factors["weight_decay"] for cell in cells_of(text))
    assert [int(value * cells - 1e-9) for value in drawn] == pytest.approx(
        list(range(cells)), abs=1
    )
    assert all(1e-5 <= cell.factors["learning_rate"] <= 0.1 for cell in cells_of(text))


def test_folds_are_cells_of_their_own():
    base = cells_of(GRID + "design: one-at-a-time\nfolds: 3\n")
    assert [cell.factors.get("fold") for cell in base] == [None, None, None, 0, 1, 2]
    assert base[-1].values["folds"] == 3 and base[-1].values["fold"] == 2
    assert len(cells_of(GRID + "folds: {count: 3, of: all}\n")) == 12
    assert len(cells_of(GRID + "design: {kind: folds, folds: 3}\n")) == 12


def test_study_l_has_its_22_levels_and_its_folds():
    study = load_study("load-analysis")
    cells = design_cells(study)
    assert [len(factor.levels) for factor in study.factors] == [4, 5, 4, 5, 4]
    assert len(cells) == 1 + 22 - 5 + 5


def test_study_e_has_its_grid():
    assert len(design_cells(load_study("edge-evaluation", quick=True))) == 7 * 4 * 2
    models = {c.values["model"] for c in design_cells(load_study("edge-evaluation"))}
    assert len(models) == 7


def test_a_cell_is_known_by_its_content():
    first, *_ = cells_of(GRID)
    moved = GRID.replace("name: s", "name: other") + "repetitions: 9\nseed: 4\n"
    assert cells_of(moved)[0].identity == first.identity
    assert cells_of(GRID.replace("fake}", "fake, epochs: 2}"))[0].identity != first.identity
    assert len({cell.identity for cell in cells_of(GRID)}) == 4


def test_a_script_is_known_by_its_bytes(tmp_path):
    script = tmp_path / "train.py"
    text = (
        f"name: s\nworkload: {{script: {script}, arguments: '--lr {{lr}} --json {{}}'}}\n"
        "factors: {lr: [0.1, 1e-3], environment.OMP_PROC_BIND: [true]}\n"
    )
    script.write_text("print(1)\n")
    first = cells_of(text)
    assert [cell.values["arguments"] for cell in first] == [
        ["--lr", "0.1", "--json", "{}"],
        ["--lr", "0.001", "--json", "{}"],
    ]
    assert first[0].values["environment"] == {"OMP_PROC_BIND": "true"}
    assert "lr" not in first[0].values
    script.write_text("print(22)\n")
    assert cells_of(text)[0].identity != first[0].identity


def test_words_add_a_factor():
    found = cells_of(GRID, words=["epochs=1,2"])
    assert len(found) == 8 and found[1].factors["epochs"] == 2


def test_blocks_are_shuffled_alike_and_apart():
    study = parse_study(GRID + "seed: 1\n", "s.yaml")
    cells = design_cells(study)
    orders = [[c.identity for c in order_block(study, cells, number)] for number in range(6)]
    assert orders[0] == [c.identity for c in order_block(study, cells[::-1], 0)]
    assert len({tuple(order) for order in orders}) > 1
    rest = [c for c in cells if c.identity != orders[0][0]]
    assert [c.identity for c in order_block(study, rest, 0)] == orders[0][1:]
    plain = parse_study(GRID + "order: file\n", "s.yaml")
    assert order_block(plain, cells, 3) == cells


def test_priority_comes_first_in_its_block():
    study = parse_study(GRID + "priority: [batch_size == 256, hidden_units == 128]\n", "s.yaml")
    found = labels(order_block(study, design_cells(study), 0))
    assert {found[0], found[1]} == {(64, 256), (128, 256)} and found[2] == (128, 64)


def test_the_next_block_is_of_those_with_the_fewest():
    study = parse_study(GRID + "order: file\n", "s.yaml")
    cells = design_cells(study)
    ids = [cell.identity for cell in cells]
    block = next_block(study, cells, {ids[0]: 1, ids[1]: 1}, set(ids))
    assert [(place.cell.identity, place.repetition) for place in block] == [
        (ids[2], 0),
        (ids[3], 0),
    ]
    assert next_block(study, cells, {}, set()) == []


@pytest.mark.parametrize(
    "text", ["__import__('os')", "a.b", "a[0]", "f(a)", "lambda: a", "a if a else a", "a ** a"]
)
def test_a_rule_is_no_program(text):
    with pytest.raises(RuleError):
        parse_rule(text, {"a": None, "f": None})


def test_rules_compare_levels():
    names = {"a": None, "b": None}
    assert parse_rule("a in (1, 2) and not b == 'x'", names).holds({"a": 2, "b": "y"})
    assert not parse_rule("1 < a <= 2 or b", names).holds({"a": 3, "b": False})
    with pytest.raises(RuleError):
        parse_rule("a < b", names).holds({"a": 1, "b": "x"})
