"""Tables that others have published, as facts with their source; nothing here is measured by us."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_L = "Finocchiaro 2024: An Outlook on Machine Learning Resource Requirements"
_P = "Imran 2018: Per Layer Time Computation of CNN Training with TensorFlow"
_E = "Zanchetta 2022: Deep Learning in Edge"
_R = "Jamgharyan 2024: Recommendations for the Deployment of Equipment for Training Neural Networks"

SOURCES = {
    "load_analysis_results": f"{_L}, tables 4.1 to 4.5",
    "load_analysis_mean_loads": f"{_L}, sections 4.2.3 and 4.2.4",
    "layer_profiling_results": f"{_P}, sections 4.3 to 4.5",
    "edge_evaluation_results": f"{_E}, tables 5.6 to 5.16",
    "edge_evaluation_energy": f"{_E}, table 5.20, beside power times time",
    "light_network_sizes": f"{_R}, table 1",
}
"""Name of each table and where its figures stand."""


def load_published(name: str) -> pl.DataFrame:
    """One of the tables of SOURCES as a frame; KeyError for another name."""
    import polars as pl

    SOURCES[name]
    text = files("trainload.analyse.published").joinpath(f"{name}.csv").read_bytes()
    return pl.read_csv(text, infer_schema_length=None)
