"""A verb that SIGTERM ends while it measures says so in one line."""

import pytest

from trainload.cli import app
from trainload.errors import Terminated


def test_sigterm_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def end(_arguments: list[str]) -> object:
        raise Terminated("SIGTERM")

    monkeypatch.setattr(app, "_start", end)
    assert app.run_app(["detect", "--measure"]) == 143
    told = capsys.readouterr()
    assert told.out == "" and told.err == "error: ended by SIGTERM\n"
