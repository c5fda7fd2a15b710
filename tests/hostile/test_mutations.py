"""Some hundred mutated run directories, and what was once wrong with some of them.

`bench/chaos_parts/mutations.py` reads tens of thousands; the same seed gives the same ones.
"""

import gzip
import json
import math
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from chaos_parts.mutation_bases import make_bases
from chaos_parts.mutations import run as run_mutations
from trainload.api.loading import load
from trainload.cli.app import run_app
from trainload.cli.printing import json_text
from trainload.record import seal_run
from trainload.record.inside import DEEPEST, parse_json

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = 60


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bases") / "all"
    make_bases(folder)
    return folder


@pytest.fixture
def traced(bases: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bases / "traced", tmp_path / "run"))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "format-1-sealed", tmp_path / "run"))


def change(path: Path, frame: pl.DataFrame) -> None:
    frame.write_parquet(path)


@pytest.mark.long
def test_mutated_directories_are_read_or_refused_in_one_line() -> None:
    tally = run_mutations(5.0, 1, CASES, workers=1)
    assert tally.trials == CASES
    assert not tally.broken, "\n".join(tally.complaints)


def test_a_window_cut_anywhere_is_left_out_and_the_rest_sealed(bases: Path, tmp_path: Path) -> None:
    whole = (bases / "traced" / "window-0001.json").read_bytes()
    for at in [*range(0, len(whole), 601), 16, 40, len(whole) - 1]:
        run = tmp_path / f"run-{at}"
        shutil.copytree(bases / "traced", run)
        (run / "window-0001.json").write_bytes(whole[:at])
        manifest = seal_run(run)
        assert manifest.sealed
        assert "window-0001.json is not whole and was left out of the trace" in manifest.warnings
        trace = json.loads(gzip.decompress((run / "trace.json.gz").read_bytes()))
        assert [window["index"] for window in trace["trainload"]["windows"]] == [0, 2]
        shutil.rmtree(run)


def test_a_window_with_a_hole_is_left_out(traced: Path) -> None:
    data = bytearray((traced / "window-0000.json").read_bytes())
    data[500:900] = bytes(400)
    (traced / "window-0000.json").write_bytes(data)
    assert any("window-0000.json is not whole" in words for words in seal_run(traced).warnings)


@pytest.mark.parametrize("key", ["index", "file", "begin_s", "cost_s"])
def test_an_event_without_a_key_is_passed_over(key: str, traced: Path) -> None:
    lines = [json.loads(line) for line in (traced / "events.jsonl").read_text().splitlines()]
    for line in lines:
        if line["kind"] == "window" and line["index"] == 1:
            del line[key]
            break
    (traced / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert seal_run(traced).damaged_lines == 1
    layers = load(traced).attribution
    assert layers is not None and len(layers.ranks) == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_values_that_are_no_figures_are_missing_and_named(value: float, sealed: Path) -> None:
    path = sealed / "steps.parquet"
    change(path, pl.read_parquet(path).with_columns(loss=pl.lit(value)))
    run = load(sealed)
    assert run.steps["loss"].null_count() == 26 and run.summary.last_loss is None
    assert "steps.parquet holds values that are no figures in loss (26); left out" in (
        run.summary.warnings
    )


@pytest.mark.parametrize("dtype", [pl.String, pl.Date, pl.Boolean, pl.List(pl.Float64)])
def test_a_column_of_another_type_is_missing_and_named(dtype: Any, sealed: Path) -> None:
    path = sealed / "samples.parquet"
    frame = pl.read_parquet(path).with_columns(
        pl.lit(None, dtype).alias("host_cpu_load_fraction"), pl.lit("x").alias("extra")
    )
    change(path, frame)
    run = load(sealed)
    assert run.samples.schema["t_s"] == pl.Float64 and "extra" not in run.samples.columns
    assert run.summary.columns.get("host_cpu_load_fraction") is None


def test_a_table_without_its_columns_is_empty_and_named(sealed: Path) -> None:
    path = sealed / "steps.parquet"
    change(path, pl.read_parquet(path).drop("start_s", "end_s"))
    run = load(sealed)
    assert run.steps.height == 0 and run.summary.step_time.median_s is None
    told = "\n".join(run.summary.warnings)
    assert "steps.parquet has no figures in start_s, end_s; taken as missing" in told
    assert "26 of 26 rows are not sound" in told


def test_what_is_printed_as_json_is_json(sealed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads((sealed / "run.json").read_text())
    document["clock"]["end_s"] = 1e308
    document["clock"]["start_s"] = -1e308
    text = json.dumps(document).replace('"damaged_lines": 0', '"damaged_lines": 1e400')
    (sealed / "run.json").write_text(text)
    assert run_app(["show", str(sealed), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown["duration_s"] is not None, "the clock is not sound: what was heard last tells"
    told = json_text({"a": [math.nan, (math.inf, 1.5)], "name": "caf\udce9"})
    assert json.loads(told, parse_constant=pytest.fail)["a"] == [None, [None, 1.5]]
    assert told.encode()


@pytest.mark.parametrize("depth", [DEEPEST + 1, 600, 100_000])
def test_deep_nesting_is_one_line(
    depth: int, sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((sealed / "run.json").read_text())
    text = json.dumps({**document, "later": "DEEP"})
    (sealed / "run.json").write_text(text.replace('"DEEP"', "[" * depth + "]" * depth))
    assert run_app(["show", str(sealed)]) == 2
    assert "nested too deep" in capsys.readouterr().err
    assert parse_json("[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)) is not None


def test_a_bad_run_is_one_line_in_the_page_of_the_others(
    sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(sealed, bad)
    (bad / "steps.parquet").write_bytes(b"PAR1 no table")
    page = tmp_path / "page.html"
    assert run_app(["report", str(sealed), str(bad), "--html", str(page)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    text = page.read_text()
    assert "<h3>Not read</h3><ul><li>bad: " in text and "steps.parquet is damaged" in text
    assert 'id="run-1"' in text and 'id="run-2"' not in text


def test_kept_layers_of_other_types_are_worked_out_anew(bases: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(bases / "closed", tmp_path / "run"))
    sound = load(run).attribution
    path = run / "layers.parquet"
    metadata = dict(pl.read_parquet_metadata(path))
    metadata.pop("ARROW:schema", None)
    kept = json.loads(metadata["trainload"])
    kept["ranks"][0]["step_s"] = "long"
    frame = pl.read_parquet(path)
    frame.write_parquet(path, metadata={**metadata, "trainload": json.dumps(kept)})
    again = load(run).attribution
    assert sound is not None and again is not None
    assert [rank.step_s for rank in again.ranks] == [rank.step_s for rank in sound.ranks]
    frame.with_columns(pl.col("window").cast(pl.Float64)).write_parquet(path, metadata=metadata)
    assert load(run).attribution is not None
