"""A few `kill -9` of a study's driver; the bench does a hundred of all its processes."""

from study_chaos import trial


def test_a_killed_study_goes_on_where_it_was(tmp_path):
    seen = trial(tmp_path, cells=12, kills=3, targets=("driver",), most_s=1.2, steps=2)
    assert seen["complaints"] == []
    assert seen["kills"] == {"driver": 3}
    assert seen["runs"] <= 12 + 3
