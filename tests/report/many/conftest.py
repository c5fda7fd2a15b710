"""Studies for the tests of the page of many runs."""

from functools import partial

import pytest
from study_samples import fill_study


@pytest.fixture(scope="session")
def write_study(write_one):
    """Builds a study's folder from cells; see `fill_study`."""
    return partial(fill_study, write_one)
