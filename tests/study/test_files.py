"""Study and run files: what is wrong in them is said in one line with file, line and key."""

import json
from pathlib import Path

import pytest

from trainload.cli.app import run_app
from trainload.errors import StudyError
from trainload.study import load_run_file, load_study, parse_study, plan_study, shipped_studies
from trainload.study.schema import run_schema, study_schema

HEAD = "name: s\nworkload: {model: mlp, framework: fake, epochs: 1}\n"
DOCS = Path(__file__).parents[2] / "docs" / "schema"


def complaint(text, name="study.yaml", **options):
    with pytest.raises(StudyError) as caught:
        plan_study(parse_study(text, name, **options))
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # a wrong key
        (f"{HEAD}factrs: {{}}\n", "study.yaml:3: factrs: no such key; did you mean 'factors'?"),
        (
            "name: s\nworkload:\n  model: mlp\n  hiden_units: 3\n",
            "study.yaml:4: workload.hiden_units: no such key; did you mean 'hidden_units'?",
        ),
        (
            f"{HEAD}factors:\n  batch: [1, 2]\n",
            "study.yaml:4: factors.batch: no such key",
        ),
        (f"{HEAD}stopping: {{metrik: step_s}}\n", "study.yaml:3: stopping.metrik: no such key"),
        # a wrong type
        (f"{HEAD}repetitions: two\n", "study.yaml:3: repetitions: expected a whole number"),
        (
            "name: s\nworkload:\n  model: mlp\n  epochs: many\n",
            "study.yaml:4: workload.epochs: expected a whole number, got 'many'",
        ),
        (
            f"{HEAD}factors:\n  batch_size:\n    - 64\n    - big\n",
            "study.yaml:6: factors.batch_size[1]: batch_size: expected a whole number, got 'big'",
        ),
        (f"{HEAD}factors: [1]\n", "study.yaml:3: factors: expected an object"),
        (f"{HEAD}repetitions: 0\n", "study.yaml:3: repetitions: 0 must be at least 1"),
        # an unknown model
        (
            "name: s\nworkload:\n  model: mpl\n",
            "study.yaml:3: workload.model: unknown model 'mpl'",
        ),
        (
            "name: s\nworkload: {framework: fake}\nfactors:\n  model:\n    - mlp\n    - vgg\n",
            "study.yaml:6: factors.model[1]: model: unknown model 'vgg'",
        ),
        # an empty factor
        (f"{HEAD}factors:\n  batch_size: []\n", "study.yaml:4: factors.batch_size: has no levels"),
        # a level that cannot exist here
        (
            f"{HEAD}factors:\n  setting:\n    - one\n    - cpu4000\n",
            "study.yaml:6: factors.setting[1]: setting: setting 'cpu4000': core 4000 is not",
        ),
        (
            f"{HEAD}factors:\n  setting: [one, huge]\n",
            "study.yaml:4: factors.setting[1]: setting: setting 'huge': no cores are called 'huge'",
        ),
        (
            "name: s\nworkload: {model: mlp}\nfactors:\n  framework: [caffe]\n",
            "study.yaml:4: factors.framework[0]: framework: ",
        ),
        # duplicate names
        (
            f"{HEAD}factors:\n  epochs: [1]\n  batch_size: [1]\n  epochs: [2]\n",
            "study.yaml:6: factors.epochs: named twice, first in line 4",
        ),
        (
            f"{HEAD}factors:\n  batch_size: [64, 32, 64]\n",
            "study.yaml:4: factors.batch_size[2]: the level 64 is named twice",
        ),
        (
            f"{HEAD}factors:\n  how: [{{level: a}}, {{level: b}}]\n",
            "study.yaml:4: factors.how[1]: two levels set nothing: they would be the same",
        ),
        # what belongs together
        (f"{HEAD}design: random\n", "study.yaml:3: design: random needs a number"),
        (f"{HEAD}design: gird\n", "study.yaml:3: design.kind: 'gird' is not one of grid"),
        (f"{HEAD}where: wrong + \n", "study.yaml:3: where[0]: 'wrong +' is no rule"),
        (f"{HEAD}where: epoch > 1\n", "study.yaml:3: where[0]: 'epoch > 1': no factor 'epoch'"),
        (
            f"{HEAD}repetitions: 2\nstopping: {{metric: step_s}}\n",
            "study.yaml:3: repetitions: `stopping` decides how often",
        ),
        (
            f"{HEAD}stopping: {{metric: step_s, minimum: 2}}\n",
            "study.yaml:3: stopping.minimum: 2 must be at least 3",
        ),
        (f"{HEAD}stopping: {{width: 0.1}}\n", "study.yaml:3: stopping: give one of `metric`"),
        (
            f"{HEAD}factors:\n  batch_size: [1]\nbase: {{batch_size: 2}}\n",
            "study.yaml:5: base.batch_size: 2 is none of its levels",
        ),
        ("name: ../up\nworkload: {model: mlp}\n", "study.yaml:1: name: '../up': letters"),
        ("workload: {model: mlp}\n", "study.yaml:1: 'name' is missing"),
        ("name: s\n  x: 1\n", "study.yaml:2: no YAML: mapping values are not allowed here"),
        ("- 1\n", "study.yaml:1: expected keys with values"),
        (
            "name: s\nworkload: {script: nowhere.py}\n",
            "study.yaml:2: workload.script: no such script: nowhere.py",
        ),
        (
            "name: s\nworkload:\n  script: nowhere.py\n  epochs: 3\n",
            "study.yaml:4: workload.epochs: is for the built-in models",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_line_and_key(
    text, expected, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("study.yaml").write_text(text)
    for verb in ("plan", "run"):
        assert run_app(["study", verb, "study.yaml", "--out", "out"]) == 2
        said = capsys.readouterr()
        assert said.err.startswith(f"error: {expected}") and said.err.count("\n") == 1
        assert said.out == "" and not list(Path("out").glob("*/runs/*"))


def test_the_command_line_gets_one_line_and_status_2(tmp_path, capsys):
    file = tmp_path / "study.yaml"
    file.write_text(f"{HEAD}factors:\n  batch_size: [x]\n")
    assert run_app(["study", "plan", str(file)]) == 2
    assert run_app(["study", "run", str(file), "--out", str(tmp_path / "out")]) == 2
    file.write_text(HEAD)
    assert run_app(["study", "plan", str(file), "batch_size=64,x"]) == 2
    assert run_app(["study", "plan", "load-analisis"]) == 2
    assert run_app(["study", "plan", str(file), "--quick"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5 and all(line.startswith("error: ") for line in lines)
    assert (
        lines[0]
        == lines[1]
        == (f"error: {file}:4: factors.batch_size[0]: batch_size: expected a whole number, got 'x'")
    )
    assert lines[2].startswith("error: command line: factors.batch_size[1]: ")
    assert "did you mean 'load-analysis'?" in lines[3]
    assert "no section `quick`" in lines[4]
    assert not (tmp_path / "out" / "s" / "runs").exists()


def test_numbers_and_words_mean_what_people_write():
    study = parse_study(
        "name: s\nworkload: {model: mlp, learning_rate: 1e-4, environment: {A: true, B: 3}}\n"
        "cool_down: false\nfolds: 3\nwhere: batch_size > 1\nfactors: {batch_size: [1, 2]}\n",
        "s.yaml",
    )
    assert study.keys.workload["learning_rate"] == 1e-4
    assert study.keys.workload["environment"] == {"A": "true", "B": "3"}
    assert study.keys.cool_down.limit_s == 0 and study.keys.folds.count == 3


def test_aliases_cannot_fill_the_memory():
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for one, before in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{one}: &{one} [{', '.join([f'*{before}'] * 10)}]\n"
    assert "more than 200,000 values" in complaint(bomb)


def test_a_run_file_tells_a_run(tmp_path, capsys):
    file = tmp_path / "run.yaml"
    file.write_text(
        "model: mlp\nframework: fake\nepochs: 2\nframes_fraction: 0.005\ncheck_overhead: false\n"
    )
    out = tmp_path / "runs"
    assert run_app(["run", str(file), "--epochs", "1", "--out", str(out), "--json"]) == 0
    path = Path(json.loads(capsys.readouterr().out)["path"])
    training = json.loads((path / "run.json").read_text())["workload"]["training"]
    assert training["epochs"] == 1
    words = ["--set", "epochs=3", "--set", "hidden_units=4", "--rate", "20", "--seed", "0"]
    assert run_app(["run", str(file), *words, "--out", str(out), "--json"]) == 0
    path = Path(json.loads(capsys.readouterr().out)["path"])
    document = json.loads((path / "run.json").read_text())
    assert document["workload"]["training"]["epochs"] == 3
    assert document["workload"]["model_options"]["hidden_units"] == 4
    assert document["sampler"]["rate_hz"] == 20 and document["framework"] == "fake"
    file.write_text("model: mlp\nepoch: 2\n")
    assert run_app(["run", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"error: {file}:2: epoch: no such key; did you mean 'epochs'?\n"
    )
    file.write_text("epochs: 2\n")
    assert run_app(["run", str(file)]) == 2
    assert "say what is trained" in capsys.readouterr().err
    file.write_text(HEAD)
    assert run_app(["run", str(file)]) == 2
    assert "is a study: trainload study run" in capsys.readouterr().err


XML = """<?xml version="1.0"?>
<experiment>
  <architecture>AlexNet</architecture>
  <batch_size>64</batch_size>
  <numEpochs>2</numEpochs>
  <classes><class>n01440764</class><class>n01443537</class></classes>
  <profiling>true</profiling>
  <logging>true</logging>
  <top_n>1,5</top_n>
  <learningRate>0.01</learningRate>
  {more}
</experiment>
"""


def test_the_xml_of_study_p_is_read(tmp_path):
    file = tmp_path / "conf.xml"
    file.write_text(XML.format(more=""))
    values, _ = load_run_file(file)
    assert values == {
        "model": "alexnet",
        "batch_size": 64,
        "epochs": 2,
        "classes": 2,
        "layers": True,
        "top": [1, 5],
        "learning_rate": 0.01,
        "framework": "tensorflow",
    }
    file.write_text(XML.format(more="<repetitions>3</repetitions>"))
    with pytest.raises(StudyError, match=r"conf.xml:11: repetitions: several runs are a study"):
        load_run_file(file)
    study = load_study(file)
    assert study.name == "conf" and study.keys.repetitions == 3
    assert study.keys.workload["model"] == "alexnet"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("<dropout>0.5</dropout>", "c.xml:11: dropout: no such element"),
        ("<iterations>few</iterations>", "c.xml:11: iterations: 'few' is no whole number"),
        ("<open>", "c.xml:12: no XML: mismatched tag"),
    ],
)
def test_what_is_wrong_in_xml_has_its_line(more, expected):
    assert complaint(XML.format(more=more), "c.xml").startswith(expected)


def test_xml_with_a_dtd_is_refused():
    said = complaint('<!DOCTYPE a [<!ENTITY b "c">]>\n<a><model>&b;</model></a>', "c.xml")
    assert said == "c.xml:1: a DTD has no place in it"


def test_the_published_schemas_are_those_of_the_types():
    assert json.loads((DOCS / "study.json").read_text()) == study_schema()
    assert json.loads((DOCS / "run.json").read_text()) == run_schema()


def test_the_schemas_know_every_key():
    run, study = run_schema()["properties"], study_schema()["properties"]
    assert {"model", "script", "hidden_units", "setting", "batch_size", "data"} <= set(run)
    assert {"name", "factors", "design", "stopping", "quick", "absent"} <= set(study)
    assert run["batch_size"] == {"type": "integer", "minimum": 1, "maximum": 10**8}
    assert "mlp" in run["model"]["enum"] and run["model"]["description"]


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", shipped_studies())
def test_the_shipped_studies_can_be_read(name, quick):
    study = load_study(name, quick=quick)
    assert study.name == (f"{name}-quick" if quick else name) and study.keys.description


def test_a_level_with_a_name_alone_leaves_the_workload_as_it_stands():
    study = parse_study(
        f"{HEAD}factors:\n  allocator:\n    - {{level: as it is}}\n"
        "    - {level: keeping, environment.MALLOC_MMAP_MAX_: '0'}\n",
        "study.yaml",
    )
    as_it_is, keeping = study.factors[0].levels
    assert as_it_is.sets == {} and keeping.sets == {"environment.MALLOC_MMAP_MAX_": "0"}
