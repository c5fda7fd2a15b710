"""`trainload compare` and `history` from run directories to exit status, JSON, Markdown, page."""

import json
import math
import re
import shutil
from dataclasses import replace

import pytest
from layers_samples import make_layers, module_paths

import trainload
from trainload.api.comparing import compare, compare_all
from trainload.cli.app import run_app
from trainload.errors import UsageError
from trainload.record.layout import MANIFEST

FACTORS = (0.99, 1.0, 1.01, 1.005)
HOSTILE = "<script>alert(1)</script>[bold]\x1b[31m\u202e&\"'"


@pytest.fixture(scope="module")
def folders(tmp_path_factory, write_one):
    """Two folders of four runs, the second a fifth slower; a study's folder with both as cells."""
    root = tmp_path_factory.mktemp("compared")
    for name, step_s in (("a", 0.05), ("b", 0.06)):
        for factor in FACTORS:
            path = write_one(root / name, epochs=1, step_s=step_s * factor, rate_hz=2.0)
            trainload.load(path)
    return root


def told(arguments, capsys):
    status = run_app(["compare", *map(str, arguments)])
    return status, capsys.readouterr()


def test_folders_are_compared_and_json_has_what_it_promises(folders, capsys):
    status, out = told([folders / "a", folders / "b", "--json"], capsys)
    found = json.loads(out.out)
    assert status == 0 and found["level"] == 0.95 and found["margin"] == 0.03
    first = found["metrics"][0]
    assert first["name"] == "step_s" and first["verdict"] == "slower" and first["unit"] == "s"
    assert first["difference"] == pytest.approx(first["b"] - first["a"])
    assert first["low"] < first["difference"] < first["high"]
    verdicts = {"faster", "slower", "higher", "lower", "same", "inconclusive"}
    assert {one["verdict"] for one in found["metrics"]} <= verdicts
    total = math.fsum(part["difference_s"] for part in found["layers"])
    assert total == pytest.approx(first["difference"], rel=1e-12)
    assert found["configuration"] == [] and isinstance(found["environment"], list)
    assert found["layers"][0]["path"] == "not explained"


def test_only_a_surely_broken_threshold_ends_with_one(folders, capsys):
    sides = [folders / "a", folders / "b"]
    status, out = told([*sides, "--fail-if", "slower:5%"], capsys)
    assert status == 1 and "fails: " in out.err and "B is slower by 20.0 %" in out.out
    assert told([*sides, "--fail-if", "slower:50%"], capsys)[0] == 0
    assert told([sides[1], sides[0], "--fail-if", "slower:5%"], capsys)[0] == 0
    assert told([*sides, "--fail-if", "peak_host_bytes:10%"], capsys)[0] == 0
    assert told([*sides, "--fail-if", "slower"], capsys)[0] == 2
    assert told([*sides, "--fail-if", "nonsense:5%"], capsys)[0] == 2


def test_single_runs_take_the_spread_of_their_folders(folders, tmp_path, capsys):
    one, other = (sorted((folders / name).iterdir())[0] for name in "ab")
    found = compare(one, other)
    assert found.metrics[0].verdict == "slower"
    assert "other runs of this workload in a, b" in found.metrics[0].note
    alone = [shutil.copytree(path, tmp_path / name / path.name) for path, name in
             ((one, "x"), (other, "y"))]  # fmt: skip
    status, out = told(alone, capsys)
    assert status == 0 and "inconclusive" in out.out
    assert "no spread between processes is known" in " ".join(out.out.split())
    stored = compare(*alone, store=folders / "a")
    assert stored.metrics[0].verdict == "slower"
    assert told([*alone, "--fail-if", "slower:5%"], capsys)[0] == 0


def test_a_side_may_be_a_cell_a_pattern_or_runs_in_hand(folders, tmp_path):
    both = tmp_path / "both"
    for name in "ab":
        for path in (folders / name).iterdir():
            copied = shutil.copytree(path, both / path.name)
            document = json.loads((copied / MANIFEST).read_text())
            document["study"] = {"study": "s", "cell": name, "factors": {"version": name}}
            (copied / MANIFEST).write_text(json.dumps(document))
    found = compare(f"{both}:version=a", f"{both}:version=b")
    assert found.metrics[0].verdict == "slower" and (found.runs_a, found.runs_b) == (4, 4)
    assert [one.name for one in found.configuration.differing] == ["version"]
    assert compare(f"{folders}/a/*", f"{folders}/b/*").metrics[0].verdict == "slower"
    loaded = trainload.compare(trainload.load_all(folders / "a"), trainload.load_all(folders / "b"))
    assert loaded.metrics[0].verdict == "slower"
    one = trainload.load(next((folders / "a").iterdir()))
    assert compare(one, one).metrics[0].percent == 0
    whole = compare(both, both)
    assert whole.cells == 2 and whole.metrics[0].verdict == "same"
    with pytest.raises(UsageError, match="version is one of a, b"):
        compare(f"{both}:version=c", both)
    with pytest.raises(UsageError, match="nothing is called height"):
        compare(f"{both}:height=1", both)


def test_more_sides_are_each_compared_with_the_first(folders, capsys):
    sides = [folders / "a", folders / "b", folders / "a"]
    found = compare_all(str(sides[0]), list(map(str, sides[1:])))
    assert [one.metrics[0].verdict for one in found] == ["slower", "same"]
    status, out = told([*sides, "--json"], capsys)
    assert status == 0 and len(json.loads(out.out)) == 2


def test_what_cannot_be_compared_gets_one_line(folders, tmp_path, capsys, make_run):
    failed = make_run(epochs=1, outcome="failed", reason="it broke")
    for arguments in (
        [folders / "a"],
        [folders / "a", tmp_path / "none"],
        [folders / "a", failed],
        [folders / "a", folders / "b", "--margin", "200"],
        [folders / "a", folders / "b", "--ranks"],
        [next((folders / "a").iterdir()), "--ranks"],
    ):
        status, out = told(arguments, capsys)
        assert status == 2 and out.err.startswith("error: ") and out.err.count("\n") == 1


def test_runs_of_older_formats_are_compared(tmp_path, capsys):
    golden = [
        shutil.copytree(f"tests/golden/format-1-{name}", tmp_path / name)
        for name in ("lines", "sealed")
    ]
    assert told([*golden, "--layers", "0"], capsys)[0] == 0


def test_markdown_and_page_show_names_as_text(folders, tmp_path, capsys):
    for name in "ab":
        for path in (folders / name).iterdir():
            shutil.copytree(path, tmp_path / name / path.name)
    for path in (tmp_path / "b").iterdir():
        document = json.loads((path / MANIFEST).read_text())
        document["software"]["odd"] = HOSTILE + "|*x*"
        (path / MANIFEST).write_text(json.dumps(document))
    page = tmp_path / "page.html"
    sides = [tmp_path / "a", tmp_path / "b"]
    status, out = told([*sides, "--markdown", "-", "--html", page], capsys)
    assert status == 0 and out.out.startswith("### step time")
    assert "<script>" not in out.out and "\\|\\*x\\*" in out.out
    rows = [line for line in out.out.splitlines() if line.startswith("| step")]
    assert rows and len({len(re.findall(r"(?<!\\)\|", row)) for row in rows[:1]}) == 1
    text = page.read_text()
    assert "<script>alert" not in text and "script-src 'none'" in text
    assert "slower" in text and "Where the difference lies" in text
    file = tmp_path / "summary.md"
    assert told([*sides, "--markdown", file, "--fail-if", "slower:5%"], capsys)[0] == 1
    assert "**fails**" in file.read_text()


def test_the_icicle_keeps_vanished_layers_and_folds_small_ones(folders):
    from trainload.analyse.compare import compare_sides, parts_of
    from trainload.analyse.compare.spread import Known
    from trainload.api.comparing import _find_side
    from trainload.report.compare.html import render_comparison_page
    from trainload.report.compare.icicle import render_icicle

    sides = []
    for name in "ab":
        side, _ = _find_side(str(folders / name), layers=False)
        paths = module_paths()[: -1 if name == "b" else None]
        rank = make_layers(paths=paths).ranks[0]
        runs = [
            replace(run, parts=parts_of(rank, run.figures.metrics["step_s"])) for run in side.runs
        ]
        sides.append(replace(side, runs=tuple(runs)))
    found = compare_sides(*sides, Known())
    assert any(part.change == "vanished" and part.path == "fc" for part in found.layers)
    drawn = render_icicle(found)
    assert 'class="lost"' in drawn and "layer1.0.conv1" in drawn and drawn.count("<svg") == 1
    assert drawn in render_comparison_page([found])


def test_history_finds_the_slower_runs(folders, tmp_path, capsys):
    for at, path in enumerate(p for n in "ab" for p in sorted((folders / n).iterdir())):
        copied = shutil.copytree(path, tmp_path / "runs" / path.name)
        document = json.loads((copied / MANIFEST).read_text())
        document["created"] = f"2026-11-{at + 1:02d}T00:00:00Z"
        document["software"]["framework_version"] = "2.1" if at < 4 else "2.2"
        (copied / MANIFEST).write_text(json.dumps(document))
    assert run_app(["history", str(tmp_path / "runs"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    (change,) = found["changes"]
    assert change["at"] == 4 and change["verdict"] == "slower" and len(found["points"]) == 8
    assert change["environment"][0]["name"] == "framework_version"
    assert run_app(["history", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr().out
    assert "slower from run 5" in printed and "framework_version: 2.1 → 2.2" in printed
    assert run_app(["history", str(tmp_path / "runs"), "--metric", "nonsense"]) == 2
    assert "no run of" in capsys.readouterr().err
    (one,) = trainload.history(tmp_path / "runs", metric="duration_s")
    assert one.metric == "duration_s"
