"""The raw figures that are published: every table can be read, and says what it should."""

import pytest

from raw import RAW, SUFFIX, load_rows, save_rows

TABLES = sorted(RAW.glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_every_row_has_a_name_of_its_own_and_something_in_it(path):
    rows = list(load_rows(path))
    assert all(set(row) == {"name", "printed", "figures"} for row in rows)
    assert all(row["printed"] or row["figures"] for row in rows)
    assert len({row["name"] for row in rows}) == len(rows) > 0


def test_all_raw_files_are_packed():
    # Scorecards are plain: the product reads them as they stand.
    assert {path.name for path in RAW.iterdir()} - {path.name for path in TABLES} == {
        "memory_scorecard_h200.json",
        "memory_scorecard_families_h200.json",
    }


def test_a_table_comes_back_as_it_was_kept(tmp_path):
    rows = [{"name": "a", "printed": "ü\n", "figures": [1, {"b": None}]}]
    one, two = tmp_path / f"one{SUFFIX}", tmp_path / f"two{SUFFIX}"
    save_rows(one, rows)
    save_rows(two, rows)
    assert list(load_rows(one)) == rows
    assert one.read_bytes() == two.read_bytes()
    assert list(load_rows(tmp_path / "nothing")) == []
