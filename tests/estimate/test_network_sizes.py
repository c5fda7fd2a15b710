"""Sizes of networks: five published detectors recomputed from their graphs."""

import pytest

from trainload.analyse.published import load_published
from trainload.errors import GraphError
from trainload.estimate.sizes.detectors import DETECTORS
from trainload.estimate.sizes.networks import estimate_sizes


@pytest.fixture(scope="module")
def sizes():
    rows = load_published("light_network_sizes").iter_rows(named=True)
    return {size.name: size for size in estimate_sizes(rows)}


def test_parameters_are_the_published_ones(sizes):
    for name in DETECTORS:
        size = sizes[name]
        assert abs(size.parameter_mib - size.published_parameter_mib) <= 1, name


def test_features_are_near_the_published_ones(sizes):
    """Within 10 %; of the two that are published as whole GB, the same whole GB."""
    for name in DETECTORS:
        here, published = sizes[name].feature_mib, sizes[name].published_feature_mib
        if published >= 1024:
            assert round(here / 1024) == published / 1024, name
        else:
            assert here == pytest.approx(published, rel=0.1), name


def test_known_networks_have_known_sizes(sizes):
    assert sizes["vgg16"].parameters == 138_357_544
    assert sizes["resnet50"].parameters == 25_557_032
    assert sizes["vgg16"].published_parameter_mib is None


def test_a_network_without_a_graph_is_named():
    with pytest.raises(GraphError, match="yolo"):
        estimate_sizes([{"model": "yolo", "parameter_mb": 1, "feature_mb": 1}])
