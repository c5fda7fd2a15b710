"""Training with TensorFlow, in its own environment: it learns, and says what it cannot do."""

from pathlib import Path

import pytest
from framework_runs import check_learning, check_refusals

pytestmark = pytest.mark.framework("tensorflow")


def test_a_whole_run_learns_and_tells_its_setting(tmp_path: Path) -> None:
    obtained = check_learning("tensorflow", tmp_path)
    assert any("operations run one after another" in note for note in obtained["notes"])


def test_what_it_cannot_do_is_one_line(tmp_path: Path) -> None:
    check_refusals("tensorflow", tmp_path)
