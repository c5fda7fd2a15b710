"""The book: repetitions and intervals, what does not count, tables, predictions, strangers."""

import json
import shutil

import polars as pl
import pytest

import trainload
from trainload.analyse.book import METRICS, load_shipped, parse_table, table_json
from trainload.api.booking import contribute
from trainload.cli.app import run_app
from trainload.errors import RecordError, UsageError

FILES = {"index.html", "sizes.html", "book.csv", "book.parquet", "book.json"}


@pytest.fixture(scope="module")
def store(tmp_path_factory, write_one):
    """Five repetitions on a GPU, one run on the processor, one that failed, one of a script."""
    folder = tmp_path_factory.mktemp("store")
    for at in range(5):
        write_one(folder / "gpu", gpu=True, step_s=0.05 + at / 1000)
    write_one(folder / "cpu", step_s=0.2)
    write_one(folder / "cpu", outcome="failed", reason="it broke")
    write_one(folder / "own", script=True)
    return folder


def test_equal_runs_are_repetitions_of_one_entry(store):
    found = trainload.book(store)
    mlp = [entry for entry in found.entries if entry.model == "mlp"]
    assert len(found.entries) == 3 and len(mlp) == 2
    gpu = next(entry for entry in mlp if entry.repetitions == 5)
    step = gpu.figures["step_s"]
    assert step.repetitions == 5 and step.low < step.value < step.high
    assert step.value == pytest.approx(0.052, rel=0.05)
    power, rate = gpu.figures["mean_power_w"], gpu.figures["examples_per_s"]
    assert gpu.figures["energy_per_example_j"].value == pytest.approx(
        power.value / rate.value, rel=0.05
    )
    assert gpu.origin == "measured" and gpu.framework_version and gpu.software
    assert len(gpu.runs) == 5 and all(len(digest) == 64 for digest in gpu.runs.values())
    cpu = next(entry for entry in mlp if entry.repetitions == 1)
    assert cpu.figures["step_s"].low is None and cpu.device != gpu.device


def test_runs_that_failed_do_not_count_and_say_why(store):
    found = trainload.book(store)
    assert [reason for _, reason in found.left_out] == ["failed: it broke"]


def test_the_same_run_twice_is_one(store):
    assert trainload.book([store, store / "cpu"]).entries == trainload.book(store).entries


def test_site_and_tables_are_written(store, tmp_path):
    found = trainload.book(store, out=tmp_path / "site")
    assert {path.name for path in (tmp_path / "site").iterdir()} == FILES
    table = pl.read_parquet(tmp_path / "site" / "book.parquet")
    assert table.height == len(found.entries) and {*METRICS} <= {*table.columns}
    assert pl.read_csv(tmp_path / "site" / "book.csv").height == table.height
    again = trainload.book(tmp_path / "site" / "book.json")
    assert again.entries == found.entries
    page = (tmp_path / "site" / "index.html").read_text()
    assert "http" not in page.replace("http-equiv", "") and str(store) not in page


def test_hostile_names_stay_text(tmp_path, write_one):
    write_one(tmp_path / "runs", hostile=True)
    trainload.book(tmp_path / "runs", out=tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "<script>alert" not in page and "\x1b" not in page and "&lt;script&gt;" in page


def test_what_is_shipped_has_origin_and_source():
    found = trainload.book()
    assert found.entries == load_shipped() and len(found.entries) >= 90
    frameworks = {e.framework for e in found.entries if e.model == "vgg16" and "EPYC" in e.device}
    assert frameworks == {"torch", "tensorflow", "jax", "mxnet"}
    assert {e.model for e in found.entries if "EPYC" in e.device} == {
        "lenet5", "alexnet", "vgg16", "inception_v3", "resnet152", "densenet121", "squeezenet1_1",
    }  # fmt: skip
    assert any(
        e.device == "NVIDIA H200" and "energy_per_example_j" in e.figures for e in found.entries
    )
    assert all(e.source and e.origin == "measured" and e.figures for e in found.entries)


def test_what_is_shipped_is_what_was_measured():
    """The table is made by bench/book_shipped.py --write; run it where this fails."""
    import book_shipped

    made = book_shipped.make_entries()
    for shipped, fresh in zip(load_shipped(), made, strict=True):
        assert (shipped.model, shipped.source, shipped.runs) == (
            fresh.model, fresh.source, fresh.runs,
        )  # fmt: skip
        assert {*shipped.figures} == {*fresh.figures}
        for metric, figure in shipped.figures.items():
            assert figure.value == pytest.approx(fresh.figures[metric].value, rel=1e-6)


def test_published_results_are_imported_entries(tmp_path):
    from importlib.resources import files

    place = files("trainload.analyse") / "published"
    names = [str(place / f"edge_evaluation_{name}.csv") for name in ("results", "energy")]
    trainload.import_runs("edge-results", names, out=tmp_path / "edge")
    entries = trainload.book(tmp_path / "edge").entries
    assert len(entries) == 69 and {entry.origin for entry in entries} == {"imported"}
    assert all({"mean_power_w", "duration_s", "energy_j"} <= {*entry.figures} for entry in entries)


def prediction(**changes):
    return {
        "format": 1, "origin": "prediction", "what": "resnet50", "device": "t4", "count": 1,
        "batch_size": 64, "precision": "fp16", "optimizer": "sgd", "step_s": 0.2,
        "examples_per_s": 320.0, "power_w": None, "low": {"step_s": 0.1}, "high": {"step_s": 0.4},
        "memory": {"needed_bytes": {"value_bytes": 10, "low_bytes": 8, "high_bytes": 12}},
        **changes,
    }  # fmt: skip


def test_predictions_are_entries_with_their_range(tmp_path):
    several = {"format": 1, "origin": "prediction", "devices": [
        {"rank": 1, "name": "t4", "prediction": prediction()},
        {"rank": 2, "name": "v100", "prediction": prediction(device="v100", count=2)},
    ]}  # fmt: skip
    path = tmp_path / "p.json"
    path.write_text(json.dumps(several))
    one, two = trainload.book(path).entries
    assert {one.device, two.device} == {"t4", "2 × v100"} and one.origin == "predicted"
    assert one.repetitions is None
    for entry in (one, two):
        assert (entry.figures["step_s"].low, entry.figures["step_s"].high) == (0.1, 0.4)
        assert entry.figures["peak_device_bytes"].high == 12
        assert "mean_power_w" not in entry.figures


@pytest.mark.parametrize(
    "text",
    [
        b"no json",
        b"[]",
        b'{"kind": "book", "format": 99, "entries": []}',
        b'{"kind": "book", "format": 1, "entries": [{"model": 7}]}',
        b'{"kind": "book", "format": 1, "entries": [{"model": "m", "origin": "guessed",'
        b' "source": ""}]}',
        b'{"kind": "book", "format": 1, "entries": [{"model": "m", "origin": "measured",'
        b' "source": "", "figures": {"beauty": {"value": 1}}}]}',
        b'{"origin": "prediction"}',
        b'{"origin": "prediction", "devices": [{"prediction": 3}]}',
    ],
)
def test_damaged_tables_are_refused(text):
    with pytest.raises(RecordError):
        parse_table(text, "the table")


def test_a_table_reads_back():
    entries = load_shipped()
    text = json.dumps(table_json(entries)).encode()
    assert parse_table(text, "the table") == entries


def test_contributions_make_the_same_entry(store, tmp_path):
    runs = sorted((store / "gpu").iterdir())
    done = contribute(runs, tmp_path / "given")
    assert len(done) == 5
    given, own = trainload.book(tmp_path / "given").entries, trainload.book(store / "gpu").entries
    assert [e.figures for e in given] == [e.figures for e in own]
    with pytest.raises(UsageError):
        contribute([], tmp_path / "none")


def test_the_verb(store, tmp_path, capsys):
    assert run_app(["book", str(store), "--out", str(tmp_path / "site")]) == 0
    out = capsys.readouterr().out
    assert "3 entries" in out and "it broke" in out and "index.html" in out
    assert run_app(["book", str(store), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "book" and len(document["entries"]) == 3
    assert document["left_out"][0]["reason"] == "failed: it broke"
    run = str(next((store / "gpu").iterdir()))
    assert run_app(["book", run, "--contribute", "--out", str(tmp_path / "given")]) == 0
    assert "steps" in capsys.readouterr().out
    assert run_app(["book", run, "--contribute", "--json", "--out", str(tmp_path / "more")]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["book", "/nowhere/at/all"],
        ["book", "--contribute"],
        ["book", "--hide", "x"],
        ["book", "--contribute", "--out", "somewhere"],
        ["dataflow"],
        ["dataflow", "alexnet", "--published"],
        ["dataflow", "--published", "--classes", "3"],
        ["dataflow", "nothing"],
        ["dataflow", "alexnet", "--energy", "dram"],
        ["dataflow", "lstm_lm"],
    ],
)
def test_wrong_words_are_one_line(words, capsys):
    assert run_app(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no runs there"):
        trainload.book(tmp_path)


def test_the_dataflow_verb_prints_json(capsys):
    words = ["dataflow", "lenet5", "--batch", "4", "--pes", "64", "--energy", "dram=100", "--json"]
    assert run_app(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["accelerator"]["elements"] == 64
    assert document["accelerator"]["energy"]["dram"] == 100
    assert {layer["type"] for layer in document["layers"]} == {"convolution", "fully connected"}
    assert run_app(words[:-1]) == 0
    assert "over that of row stationary" in capsys.readouterr().out


def test_many_runs_without_figures_are_left_out_with_what_to_do(store, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(store / "gpu", copy)
    for path in copy.rglob("summary.json"):
        path.unlink()
    monkeypatch.setattr("trainload.api.booking._MOST_WORKED_OUT", 2)
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    found = trainload.book(copy)
    assert sum(entry.repetitions for entry in found.entries) == 2
    assert len(found.left_out) == 3 and all("seal" in reason for _, reason in found.left_out)
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before
