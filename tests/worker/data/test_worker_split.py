"""The split keeps groups whole, whatever the groups and the seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload_worker.data.split import split_by_group, split_fold
from trainload_worker.errors import DataError

groups_of_two_or_more = st.lists(st.integers(0, 30), min_size=2, max_size=200).filter(
    lambda groups: len(set(groups)) > 1
)


@given(groups_of_two_or_more, st.floats(0.01, 0.99), st.integers())
def test_no_group_stands_on_both_sides_and_no_row_is_lost(
    groups: list[int], fraction: float, seed: int
) -> None:
    split = split_by_group(groups, fraction, seed)
    train = {groups[row] for row in split.train_rows}
    validation = {groups[row] for row in split.validation_rows}
    assert not train & validation
    assert train and validation
    assert sorted([*split.train_rows, *split.validation_rows]) == list(range(len(groups)))
    assert (len(train), len(validation)) == (
        split.train_group_count,
        split.validation_group_count,
    )


@given(groups_of_two_or_more, st.integers())
def test_the_same_seed_gives_the_same_split(groups: list[int], seed: int) -> None:
    assert split_by_group(groups, 0.2, seed) == split_by_group(groups, 0.2, seed)


def test_a_fifth_of_the_groups_is_put_aside() -> None:
    assert split_by_group(list(range(100)) * 3, 0.2, 0).validation_group_count == 20


def test_seeds_differ() -> None:
    groups = list(range(50))
    assert split_by_group(groups, 0.2, 0) != split_by_group(groups, 0.2, 1)


def test_a_single_group_cannot_be_split() -> None:
    with pytest.raises(DataError, match="1 group"):
        split_by_group([7, 7, 7], 0.2, 0)


@given(groups_of_two_or_more, st.integers(2, 8), st.integers())
def test_over_all_folds_each_group_is_held_out_once(
    groups: list[int], folds: int, seed: int
) -> None:
    names = set(groups)
    if folds > len(names):
        with pytest.raises(DataError, match=f"the data hold {len(names)} groups"):
            split_fold(groups, folds, 0, seed)
        return
    splits = [split_fold(groups, folds, fold, seed) for fold in range(folds)]
    held_out = [{groups[row] for row in split.validation_rows} for split in splits]
    assert sum(map(len, held_out)) == len(names) and set().union(*held_out) == names
    assert all(
        not {groups[row] for row in split.train_rows} & out
        for split, out in zip(splits, held_out, strict=True)
    )


def test_a_fold_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(DataError, match="there are folds 0 to 2"):
        split_fold([1, 2, 3], 3, 3, 0)
