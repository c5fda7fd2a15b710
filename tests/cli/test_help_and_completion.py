"""Help with examples for every verb, and what the shells complete."""

import os
import subprocess
import sys

import pytest
import typer

from trainload.cli.app import app

ROOT = typer.main.get_command(app)


def leaves(command=ROOT, path=()):
    below = getattr(command, "commands", {})
    if not below:
        yield path, command
    for name, one in below.items():
        yield from leaves(one, (*path, name))


VERBS = {" ".join(path): command for path, command in leaves()}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(verb):
    command = VERBS[verb]
    assert command.help and command.help.splitlines()[0].endswith(".")
    assert "Example" in command.epilog and f"trainload {verb}" in command.epilog
    for parameter in command.params:
        assert getattr(parameter, "hidden", False) or parameter.help, (verb, parameter.name)


def test_the_list_of_verbs_cuts_no_sentence():
    text = trainload_help()
    listed = text[text.index("Commands:") : text.index("Examples:")]
    assert "..." not in listed and "Run one training and measure it" in listed
    for words in ("Files:", "Environment:", "Exit status:", "TRAINLOAD_PLAIN"):
        assert words in text


def trainload_help():
    from typer.testing import CliRunner

    return CliRunner(env={"COLUMNS": "80"}).invoke(app, ["--help"]).output


def asked(words, shell):
    """The environment in which a shell asks for the last of these words."""
    return {
        "_TRAINLOAD_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": " ".join(words),
        "TRAINLOAD_CONFIG": "/nowhere.toml",
    }


def completed(words, shell="bash"):
    """The words that a shell would offer for the last of these."""
    from typer.testing import CliRunner

    done = CliRunner(env=asked(words, shell)).invoke(app, [], prog_name="trainload")
    assert "Traceback" not in done.output and isinstance(done.exception, SystemExit | None)
    return done.output


def test_a_shell_is_answered_by_the_program_itself():
    code = "import sys; sys.argv[0] = 'trainload'; from trainload.cli import main; main()"
    words = ["trainload", "show", "--la"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **asked(words, "bash")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "--layers" in done.stdout and done.stdout.split() == completed(words).split()


def test_verbs_and_options_are_completed():
    assert set(completed(["trainload", "s"]).split()) >= {"show", "study", "seal", "subset"}
    assert "--layers" in completed(["trainload", "show", "--la"])
    assert "show" in completed(["trainload", "sh"], shell="zsh")
    assert "show" in completed(["trainload", "sh"], shell="fish")


def test_models_frameworks_and_devices_are_completed():
    assert "resnet50" in completed(["trainload", "run", "resnet5"])
    assert set(completed(["trainload", "run", "mlp", "--framework", ""]).split()) >= {
        "torch", "jax", "tensorflow", "mxnet",
    }  # fmt: skip
    assert "h200" in completed(["trainload", "predict", "--device", "h2"])
    assert "t4,h200" in completed(["trainload", "predict", "--device", "t4,h2"])


def test_the_script_for_a_shell_can_be_shown():
    environment = {**os.environ, "_TRAINLOAD_COMPLETE": "source_bash"}
    code = "import sys; sys.argv[0] = 'trainload'; from trainload.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "complete" in done.stdout and "trainload" in done.stdout
