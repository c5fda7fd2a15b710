"""`show` and `report` on a run whose layers were traced, and on one whose trace is broken."""

import csv
import gzip
import json

import pytest

from trainload.cli.app import run_app

STEP_US = 50_000


def window_events(first=10, steps=3):
    """A CPU trace: each step one forward of two layers, a backward range and an update."""
    yield mark(first - 1, 0)
    for at in range(steps):
        begin = at * STEP_US
        yield span("layer:Net:", begin + 1_000, 20_000)
        for n, name in enumerate(("a", "b")):
            yield span(f"layer:Net:{name}", begin + 2_000 + 9_000 * n, 8_000)
            yield span("aten::linear", begin + 2_100 + 9_000 * n, 7_000)
        yield span("trainload.backward", begin + 22_000, 15_000)
        yield span("Optimizer.step#SGD.step", begin + 40_000, 9_999)
        yield span("aten::add_", begin + 41_000, 8_000)
        yield mark(first + at, begin + STEP_US)


def span(name, ts, dur):
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": 1}


def mark(step, ts):
    return {**span(f"trainload.step:{step}", ts - 1, 1), "cat": "user_annotation"}


@pytest.fixture
def traced(make_run):
    """A run of 300 steps of 50 ms with one window of three."""
    path = make_run()
    window = {
        "index": 0, "purpose": "time", "first_step": 10, "last_step": 12, "disturbed": [9, 13],
        "begin_s": 3.0, "end_s": 3.2, "cost_s": 0.1,
    }  # fmt: skip
    module = {"root": "Net", "class": "Linear", "parameters": 4, "parameter_bytes": 16}
    module |= {"gradient_bytes": None, "optimizer_bytes": None}
    header = {
        "format": 1, "rank": 0, "device": "cpu", "budget": 0.03, "windows": [window],
        "modules": [{**module, "layer": layer} for layer in ("", "a", "b")], "notes": [],
    }  # fmt: skip
    start = {"ph": "M", "name": "trainload.window", "ts": 0, "pid": 0, "tid": 0}
    events = [{**start, "args": {"index": 0}}, *window_events()]
    trace = {"trainload": header, "schemaVersion": 1, "traceEvents": events}
    (path / "trace.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    return path


def test_show_tells_where_each_step_goes(traced, capsys):
    assert run_app(["show", str(traced)]) == 0
    text = capsys.readouterr().out
    assert "where each step goes (50 ms on average)" in text and "costliest layers" in text
    for option in ("--layers", "--all"):
        assert run_app(["show", str(traced), option]) == 0
        text = capsys.readouterr().out
        assert "where each step goes  traced step 50 ms (mean, corrected) on cpu" in text
        assert "Net" in text and "├ a" in text
    assert run_app(["show", str(traced), "--loads"]) == 0
    assert "where each step" not in capsys.readouterr().out


def test_json_holds_the_layers(traced, make_run, capsys):
    for arguments in (["show", str(traced)], ["report", str(traced)]):
        assert run_app([*arguments, "--json"]) == 0
        values = json.loads(capsys.readouterr().out)
        values = values if isinstance(values, dict) else values[0]
        (rank,) = values["layers"]["ranks"]
        assert [node["layer"] for node in rank["layers"]] == ["", "a", "b"]
        assert sum(rank["parts_s"].values()) == pytest.approx(rank["step_s"])
    assert run_app(["show", str(make_run()), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"] is None


def test_report_writes_page_trace_and_tables(traced, tmp_path, capsys):
    page, trace, tables = tmp_path / "p.html", tmp_path / "t.json", tmp_path / "tables"
    asked = ["--html", str(page), "--trace", str(trace), "--csv", str(tables)]
    assert run_app(["report", str(traced), *asked]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(p) for p in (trace, tables / "layers.csv", tables / "steps.csv", page)]
    assert "Where each step goes" in page.read_text()
    assert json.loads(trace.read_text())["traceEvents"][1]["name"] == "trainload.step:9"
    with (tables / "steps.csv").open() as file:
        assert [row["iteration"] for row in csv.DictReader(file)] == ["10", "11", "12"]


def test_a_trace_alone_writes_no_page(traced, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_app(["report", str(traced), "--trace", "t.json.gz"]) == 0
    assert not (tmp_path / "report.html").exists()
    assert run_app(["report", str(traced)]) == 0
    assert (tmp_path / "report.html").exists()


def test_a_broken_trace_leaves_the_rest_to_be_shown(traced, tmp_path, capsys):
    (traced / "trace.json.gz").write_bytes(b"no trace")
    assert run_app(["show", str(traced)]) == 2
    shown = capsys.readouterr()
    assert "completed" in shown.out and shown.err.count("\n") == 1
    page = tmp_path / "page.html"
    assert run_app(["report", str(traced), "--html", str(page)]) == 2
    assert "Where each step goes" not in page.read_text()
    assert run_app(["report", str(traced), "--json"]) == 2
    assert run_app(["report", str(traced), "--csv", str(tmp_path / "tables")]) == 2
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "{run}", "--rank", "3"], "has no layers of rank 3; --rank may be 0"),
        (["report", "{run}", "--trace", "{out}", "--rank", "3"], "no trace of rank 3"),
        (["report", "{run}", "{run}", "--trace", "{out}"], "for one run"),
        (["report", "{run}", "{run}", "--csv", "{out}"], "for one run"),
        (["report", "{bare}", "--csv", "{out}"], "has no traced layers; record some"),
        (["report", "{bare}", "--trace", "{out}"], "has no traced windows; record some"),
    ],
)
def test_wrong_wishes_end_in_one_line(traced, make_run, tmp_path, capsys, arguments, words):
    places = {"run": traced, "bare": make_run(), "out": tmp_path / "out.json"}
    assert run_app([argument.format(**places) for argument in arguments]) == 2
    shown = capsys.readouterr()
    assert words in shown.err and shown.err.count("\n") == 1
    assert not (tmp_path / "out.json").exists()
