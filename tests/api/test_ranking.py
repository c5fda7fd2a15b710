"""Rankings: study E's published wins from its imported table, verdicts, missing cells, fronts."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

import trainload
from trainload.cli.app import run_app
from trainload.errors import UsageError

PUBLISHED = files("trainload.analyse") / "published"
RESULTS, ENERGY = (str(PUBLISHED / f"edge_evaluation_{name}.csv") for name in ("results", "energy"))


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    """Study E's published tables as runs."""
    folder = tmp_path_factory.mktemp("edge")
    assert len(trainload.import_runs("edge-results", [RESULTS, ENERGY], out=folder)) == 69
    return folder


def test_study_e_published_wins(edge):
    ranking = trainload.rank(edge)
    assert ranking.within == ("model", "setting")
    assert ranking.win_counts("duration_s") == {"torch": 16, "mxnet": 15}
    assert ranking.win_counts("mean_power_w") == {"torch": 18, "mxnet": 13}
    gpu = trainload.rank(edge, where={"setting": "GPU-*"})
    assert gpu.win_counts("duration_s") == {"mxnet": 14, "torch": 7}
    cpu = trainload.rank(edge, where={"setting": "CPU-*"})
    assert cpu.win_counts("mean_power_w") == {"mxnet": 10, "torch": 0}


def test_study_e_published_differences(edge):
    """Table 5.7: LeNet in GPU-CFG1 is 184 s or 5.95 % faster in PyTorch, and others."""
    best = trainload.rank(edge).best.filter(setting="GPU-CFG1")
    expected = {
        ("duration_s", "lenet"): ("torch", 184.0, 5.95),
        ("duration_s", "alexnet"): ("mxnet", 3769.0, 45.79),
        ("epoch_s", "vgg16"): ("mxnet", 1963.6, 58.14),
        ("mean_power_w", "lenet"): ("torch", 2.12, 11.80),
        ("mean_loss", "densenet121"): ("torch", 0.85, 41.79),
        ("mean_validation_accuracy", "inception_v3"): ("torch", 0.335, 141.95),
        ("mean_top5_accuracy", "squeezenet"): ("torch", 0.395, 76.11),
    }
    for (metric, model), (winner, difference, percent) in expected.items():
        row = best.filter(metric=metric, model=model).row(0, named=True)
        assert (row["best"], row["standing"]) == (winner, "by mean only")
        assert row["difference"] == pytest.approx(difference, abs=1e-6)
        assert 100 * row["difference_fraction"] == pytest.approx(percent, abs=0.006)
        assert row["low_fraction"] is None


def test_study_e_names_the_two_energies_that_contradict_power_and_time(edge):
    ranking = trainload.rank(edge)
    assert ranking.energy.height == 69
    wrong = ranking.energy.filter(ranking.energy["contradicts"])
    assert set(wrong.select("model", "framework", "setting").rows()) == {
        ("alexnet", "mxnet", "CPU-CFG2"),
        ("squeezenet", "mxnet", "CPU-CFG1"),
    }
    doubtful = ranking.best.drop_nulls("doubtful").select("metric", "model", "doubtful").rows()
    assert set(doubtful) == {("energy_j", "alexnet", "mxnet"), ("energy_j", "squeezenet", "mxnet")}


def test_study_e_missing_cells_and_fronts(edge):
    ranking = trainload.rank(edge)
    assert ranking.missing.height == 15 and set(ranking.missing["metric"]) == {None}
    front = ranking.pareto.filter(over="model=densenet121", on_front=True)
    assert set(front.select("setting", "framework").rows()) == {
        ("CPU-CFG1", "torch"),
        ("GPU-CFG1", "torch"),
    }
    beaten = ranking.pareto.filter(over="all", on_front=False)
    assert beaten["beaten_by"].null_count() == 0


def test_without_published_energies_they_are_power_and_time(tmp_path):
    file = tmp_path / "some.csv"
    file.write_text("".join(Path(RESULTS).read_text().splitlines(keepends=True)[:3]))
    runs = trainload.import_runs("edge-results", file, out=tmp_path / "runs")
    figure = runs[0].manifest.imported.figures["energy_j"]
    assert figure.derived and figure.value == pytest.approx(17.96 * 3094)
    ranking = trainload.rank(tmp_path / "runs", metrics=["energy_j"])
    assert ranking.win_counts("energy_j") == {"mxnet": 0, "torch": 1}
    assert ranking.energy.is_empty()  # a product cannot contradict its factors


def write_runs(folder, rows, columns="hardware_config,framework,model,total_time_s,batch"):
    """Each row as a run of its own file, so that cells may repeat."""
    for number, row in enumerate(rows):
        file = folder / f"{number}.csv"
        file.write_text(f"{columns}\n{row}\n")
        trainload.import_runs("edge-results", file, out=folder / "runs")
    return folder / "runs"


def test_repetitions_decide_or_do_not(tmp_path):
    rows = [
        f"s,{f},a,{t},1" for f, ts in (("x", (10, 11, 10.5)), ("y", (20, 21, 20.5))) for t in ts
    ]
    rows += [f"s,{f},b,{t},1" for f, ts in (("x", (10, 30, 20)), ("y", (11, 31, 21))) for t in ts]
    rows += ["s,x,c,5,1", "s,y,c,5,1", "s,x,d,5,1"]
    ranking = trainload.rank(write_runs(tmp_path, rows), metrics=["duration_s"], by="framework")
    found = {row["model"]: row for row in ranking.best.to_dicts()}
    decided = found["a"]
    assert decided["standing"] == "decided" and decided["best"] == "x" and decided["runs"] == 3
    assert decided["low_fraction"] < -0.48 < decided["high_fraction"] < 0
    unsure = found["b"]
    assert unsure["standing"] == "not decided" and unsure["undecided"] == "y"
    assert unsure["low_fraction"] < 0 < unsure["high_fraction"]
    assert found["c"]["standing"] == "tie" and found["c"]["best"] is None
    assert found["d"]["standing"] == "no contest" and found["d"]["absent"] == "y"
    wins = ranking.wins.filter(over="all", level="x").row(0, named=True)
    assert (wins["contests"], wins["wins"], wins["decided"]) == (3, 2, 1)
    assert (wins["not_decided"], wins["ties"], wins["no_contest"]) == (1, 1, 1)


def test_any_factor_and_what_cannot_be_ranked(tmp_path):
    place = write_runs(tmp_path, ["s,x,a,10,1", "t,x,a,20,1", "s,x,b,9,1", "t,x,b,3,1"])
    ranking = trainload.rank(place, by="setting")
    assert ranking.within == ("model",) and ranking.win_counts("duration_s") == {"s": 1, "t": 1}
    with pytest.raises(UsageError, match=r"every run has framework=x.*differ: model, setting"):
        trainload.rank(place)
    with pytest.raises(UsageError, match="no run tells colour"):
        trainload.rank(place, by="colour")
    with pytest.raises(UsageError, match="--within setting: it is ranked"):
        trainload.rank(place, by="setting", within=["setting"])
    with pytest.raises(UsageError, match="no run tells nonsense"):
        trainload.rank(place, by="setting", metrics=["nonsense"])
    with pytest.raises(UsageError, match="no run fits the filters"):
        trainload.rank(place, by="setting", where={"model": "z"})
    pooled = trainload.rank(place, by="setting", within=["framework"])
    assert pooled.notes == ("runs of one cell differ in model",)


def test_measured_runs_are_ranked_and_their_energy_is_checked(make_run, tmp_path):
    for framework, step_s in (("torch", 0.05), ("jax", 0.1)):
        for _ in range(3):
            make_run(epochs=1, step_s=step_s, gpu=True, changes={"framework": framework})
    failed = make_run(
        epochs=1, gpu=True, outcome="failed", reason="it broke", changes={"framework": "mxnet"}
    )
    assert trainload.load(failed).outcome == "failed"
    ranking = trainload.rank(tmp_path / "runs")
    assert set(ranking.levels) == {"torch", "jax", "mxnet"}
    row = ranking.best.filter(metric="epoch_s").row(0, named=True)
    assert row["best"] == "torch" and row["difference_fraction"] == pytest.approx(0.48, abs=0.03)
    assert set(ranking.cells["origin"]) == {"measured"}
    told = ranking.missing.filter(framework="mxnet")
    assert told["reason"].to_list()[0] == "failed: it broke"
    # The counters say 300 W throughout, the readings of power swing around half of 400 W.
    off = ranking.energy["difference_fraction"].abs()
    assert ranking.energy.height == 6
    assert ranking.energy["contradicts"].to_list() == (off > 0.05).to_list()
    assert ranking.energy["source"].to_list() == ["gpu0"] * 6


def test_a_study_is_ranked_within_its_factors_and_planned_cells_are_missed(make_run, tmp_path):
    folder = tmp_path / "s"
    path = make_run(epochs=1)
    for number, (width, optimizer) in enumerate([(1, "adam"), (1, "sgd"), (2, "adam")]):
        other = folder / "runs" / f"c{number}"
        shutil.copytree(path, other)
        document = json.loads((other / "run.json").read_text())
        factors = {"width": width, "optimizer": optimizer}
        document |= {"run_id": other.name, "created": f"2026-01-0{number + 1}"}
        document["study"] = {"study": "s", "cell": str(number), "factors": factors}
        # A fact that follows from the level, as image sizes follow from models.
        document["workload"]["training"]["batch_size"] = 8 * width
        (other / "run.json").write_text(json.dumps(document))
        trainload.load(other)
    cells = [
        {"identity": f"{w}{o}", "factors": {"width": w, "optimizer": o}, "title": "", "seconds": 1}
        for w in (1, 2)
        for o in ("adam", "sgd")
    ]
    (folder / "cells.jsonl").write_text("".join(json.dumps(cell) + "\n" for cell in cells))
    ranking = trainload.rank(folder, by="optimizer", metrics=["duration_s"])
    assert ranking.within == ("width",)
    assert ranking.missing.rows() == [("2", "sgd", None, "never measured")]
    assert ranking.best.filter(width="2")["standing"].item() == "no contest"


def test_facts_may_be_called_as_columns_are(tmp_path):
    for value in ("x", "y"):
        file = tmp_path / f"{value}.csv"
        file.write_text(
            f"hardware_config,framework,model,total_time_s\ns,{value},m,1{value == 'y':d}\n"
        )
        trainload.import_runs(
            "edge-results", file, out=tmp_path / "runs", config={"best": "1", "run": value}
        )
    ranking = trainload.rank(tmp_path / "runs", within=["best_level"])
    assert ranking.best["best"].to_list()[0] == "x" and ranking.best["best_level"][0] == "1"


def test_the_verb_prints_text_markdown_json_and_csv(edge, capsys, tmp_path):
    assert run_app(["rank", str(edge)]) == 0
    text = capsys.readouterr().out
    assert "torch by 184 s, 5.9 % °" in text and "Wins, mxnet : torch" in text
    assert "Energies that contradict mean power × time: 2 of 69" in text and "Missing: 15" in text
    assert "torch by 179.4 Wh, 28.9 % ° !" in text
    assert run_app(["rank", str(edge), "setting=GPU-*", "--markdown"]) == 0
    told = capsys.readouterr().out
    assert "| Total time | 14 : 7 | 5 : 2 |" in told and "inception\\_v3" in told
    assert run_app(["rank", str(edge), "--json", "--metric", "duration_s"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["best"]) == 42 and document["metrics"] == ["duration_s"]
    out = tmp_path / "tables"
    assert run_app(["rank", str(edge), "--csv", str(out)]) == 0
    assert {path.stem for path in out.iterdir()} == {
        "best", "wins", "cells", "missing", "energy", "pareto",
    }  # fmt: skip
    capsys.readouterr()
    for wrong in (["/dev/null"], [str(tmp_path)], [str(edge), "--by", "x"], [str(edge), "a=b"]):
        assert run_app(["rank", *wrong]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1
