"""The user's file of defaults: what it sets, what wins over it, and how it is refused."""

import json

import pytest

from trainload.cli import defaults
from trainload.cli.app import app, run_app
from trainload.cli.defaults import defaults_path, load_defaults


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Writes the file and answers its path."""
    monkeypatch.delenv(defaults.FILE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def write(text):
        path = tmp_path / "config" / "trainload.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_the_place_follows_the_variables(tmp_path, monkeypatch):
    monkeypatch.delenv(defaults.FILE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert defaults_path() == tmp_path / "trainload.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert defaults_path() == tmp_path / ".config" / "trainload.toml"
    monkeypatch.setenv(defaults.FILE_VARIABLE, str(tmp_path / "other.toml"))
    assert defaults_path() == tmp_path / "other.toml"
    monkeypatch.setenv(defaults.FILE_VARIABLE, "")
    assert defaults_path() is None and load_defaults(app).options == {}


def test_keys_reach_the_verbs_they_are_for(config):
    config(
        'out = "~/all-runs"\ncandidates = ["h200", "t4"]\ncurrency = "EUR"\nper_usd = 0.9\n'
        'plain = true\n[run]\nrate = 5\nbatch-size = 32\nset = ["epochs=1"]\nlayers = true\n'
        '[study.run]\non = "local"\n'
    )
    found = load_defaults(app)
    run = found.options["run"]
    assert run["rate"] == "5" and run["batch_size"] == "32" and run["words"] == ["epochs=1"]
    assert run["layers"] is True
    assert run["out"].endswith("/all-runs") and "~" not in run["out"]
    assert found.options["validate"]["out"] == run["out"]
    assert found.options["predict"]["device"] == "h200,t4"
    assert found.options["study"]["run"]["on"] == "local"
    assert found.currency.code == "EUR" and found.currency.per_usd == 0.9
    assert found.plain


def test_the_command_line_wins(config, tmp_path, capsys):
    config(f'out = "{tmp_path / "kept"}"\n[run]\nframework = "fake"\nepochs = 2\njson = true\n')
    words = ["run", "mlp", "--set", "frames_fraction=0.005", "--fake", '{"step_s": 0.001}']
    assert run_app(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"].startswith(str(tmp_path / "kept")) and told["summary"]["epochs"] == 2
    assert run_app([*words, "--out", str(tmp_path / "said"), "--epochs", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"].startswith(str(tmp_path / "said")) and told["summary"]["epochs"] == 1


def test_a_run_file_wins_over_the_defaults(config, tmp_path, capsys):
    config("[run]\nepochs = 3\nseed = 7\njson = true\n")
    file = tmp_path / "mine.yaml"
    file.write_text("model: mlp\nepochs: 1\nframes_fraction: 0.005\n")
    words = ["--framework", "fake", "--fake", '{"step_s": 0.001}', "--out", str(tmp_path / "o")]
    assert run_app(["run", str(file), *words]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["epochs"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("out = \n", "is no TOML: Invalid value (at line 1, column 7)"),
        ("\nouty = 1\n", "line 2: outy is no key here; did you mean 'out'?"),
        ("[run]\nrat = 1\n", "line 2: run.rat is no key here; did you mean 'rate'?"),
        ("[run]\n\nrate = 'x'\n", "line 3: run.rate: "),
        ("[run]\nepochs = 0\n", "line 2: run.epochs: "),
        ("[run]\nlayers = 3\n", "line 2: run.layers must be true or false"),
        ("[run]\nrate = true\n", "line 2: run.rate is not true or false"),
        ("[run]\nset = 'a=1'\n", "line 2: run.set must be a list"),
        ("[run]\nrate = [1]\n", "line 2: run.rate must be one value"),
        ("[run]\nfake = '{}'\n", "line 2: run.fake is no key here"),
        ("[rnu]\nrate = 1\n", "line 1: rnu is no key here; did you mean 'run'?"),
        ("out = 3\nplain = 1\n", "line 2: plain must be true or false"),
        ("candidates = 'h200'\n", "line 1: candidates must be a list of devices"),
        ("currency = 'EUR'\n", "line 1: currency needs per_usd, how many EUR one US dollar is"),
        ("per_usd = 2\n", "line 1: per_usd needs a currency of three letters"),
        ("currency = 'EUR'\nper_usd = -1\n", "line 2: per_usd needs per_usd"),
        ("[study.run]\nno = 1\n", "line 2: study.run.no is no key here"),
        ("run = 3\n", "line 1: run is no key here"),
    ],
)
def test_what_cannot_be_meant_names_file_line_and_key(config, capsys, text, words):
    path = config(text)
    assert run_app(["models"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {path}") and words in told and told.count("\n") == 1


def test_a_file_that_is_named_must_be_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(defaults.FILE_VARIABLE, str(tmp_path / "none.toml"))
    assert run_app(["models"]) == 2
    assert "cannot read the defaults in" in capsys.readouterr().err
    monkeypatch.setenv(defaults.FILE_VARIABLE, str(tmp_path))
    assert run_app(["models"]) == 2
    assert "Is a directory" in capsys.readouterr().err
    (tmp_path / "latin").write_bytes(b"\xff")
    monkeypatch.setenv(defaults.FILE_VARIABLE, str(tmp_path / "latin"))
    assert run_app(["models"]) == 2
    assert "no text in UTF-8" in capsys.readouterr().err


def test_help_works_whatever_stands_in_it(config, capsys):
    config("nonsense\n")
    assert run_app(["run", "--help"]) == 0
    assert "--epochs" in capsys.readouterr().out


def test_money_is_shown_in_the_currency(config, make_run, tmp_path, capsys):
    document = {"kind": "trainload prices", "format": 1, "source": "bill", "date": "2026"}
    document |= {"licence": "own", "electricity_usd_per_kwh": 50.0}
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(document))
    config(f'currency = "EUR"\nper_usd = 2\nprices = "{prices}"\n')
    assert run_app(["show", str(make_run(gpu=True))]) == 0
    assert "0.14 EUR of electricity at 50 USD/kWh" in capsys.readouterr().out
