"""What the host does, drawn: table, page, icicle, CSV and JSON say the same."""

import csv
import io
from dataclasses import replace

import pytest
from layers_samples import make_rank, with_host
from rich.console import Console

from trainload.analyse.attribution.types import RunLayers
from trainload.report.layers.csv_files import HOST_COLUMNS, write_host_csv
from trainload.report.layers.host import host_rows
from trainload.report.layers.plots import icicle_data
from trainload.report.layers.terminal import render_layers
from trainload.report.layers.values import layers_json
from trainload.report.layers.wording import render_sampling


def text_of(rank):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render_layers(RunLayers(ranks=(rank,), advice=())))
    return console.export_text()


def test_the_table_names_who_and_where():
    text = text_of(with_host(make_rank()))
    assert "Python between torch's calls" in text
    for words in ("script", "train.py:41 run", "progress bar · tqdm", "logging · lightning"):
        assert words in text
    assert "940 a second (a timer every 1 ms), 5 µs each" in text
    assert "For 10.0 % of that time the thread had no core" in text
    assert "the training does not run in the main thread" in text


def test_nothing_is_said_of_a_host_that_was_not_sampled():
    rank = make_rank()
    assert "who, and where" not in text_of(rank)
    assert render_sampling(None) is None
    refused = replace(
        with_host(rank).sampling, windows=0, taken=0, rate_hz=None, period_s=None, own_s=None
    )
    assert render_sampling(refused) == (
        "The host's stacks were not sampled: the training does not run in the main thread."
    )


def test_rows_sum_to_the_hosts_two_parts_however_few_are_shown():
    rank = with_host(make_rank())
    for groups, places in ((20, 20), (2, 1), (1, 0), (0, 0)):
        rows = [row for row in host_rows(rank, groups=groups, places=places) if not row.place]
        assert sum(row.between_s for row in rows) == pytest.approx(rank.parts["python"])
        assert sum(row.preparing_s for row in rows) == pytest.approx(rank.parts["idle: host"])


def test_the_icicle_holds_whose_python_it_was_and_still_sums_to_the_step():
    rank = with_host(make_rank())
    data = icicle_data(rank)
    rest = data["rest"]
    own = sum(sum(item[3:]) for item in data["items"])
    top = sum(length for _, _, length, above in rest if above < 0)
    assert own + top == pytest.approx(rank.step_s * 1e9, abs=len(rest))
    whole = next(at for at, entry in enumerate(rest) if entry[1] == "Python between torch's calls")
    groups = [at for at, entry in enumerate(rest) if entry[3] == whole]
    assert [rest[at][1] for at in groups] == [
        "script", "progress bar · tqdm", "logging · lightning",
    ]  # fmt: skip
    assert sum(rest[at][2] for at in groups) == rest[whole][2]
    for group in groups:
        assert sum(entry[2] for entry in rest if entry[3] == group) == rest[group][2]


def test_csv_and_json_hold_every_place(tmp_path):
    rank = with_host(make_rank())
    write_host_csv([rank], tmp_path / "host.csv")
    with (tmp_path / "host.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == HOST_COLUMNS
    assert {row["file"] for row in rows} >= {"train.py", "tqdm/std.py"}
    told = layers_json(RunLayers(ranks=(rank,), advice=()))["ranks"][0]
    assert sum(one["time_s"] for one in told["host"]) == pytest.approx(
        rank.parts["python"] + rank.parts["idle: host"]
    )
    assert told["sampling"]["taken"] == 28
