"""Something done once a module has been imported, by whoever imports it."""

import importlib
import sys

from trainload_worker.process.after_import import AfterImport


def test_the_module_is_whole_and_keeps_its_own_loader(tmp_path, monkeypatch):
    (tmp_path / "awaited_module.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    seen = []
    waiting = AfterImport("awaited_module", lambda module: seen.append(module.VALUE))
    waiting.watch()
    import json.tool  # another import passes

    assert seen == [] and json.tool and waiting in sys.meta_path
    module = importlib.import_module("awaited_module")
    assert seen == [3] and waiting not in sys.meta_path
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__
    AfterImport("awaited_module", lambda module: seen.append(module.VALUE + 1)).watch()
    assert seen == [3, 4]
    del sys.modules["awaited_module"]


def test_a_wait_that_is_left_ends(monkeypatch):
    waiting = AfterImport("never_imported_module", lambda module: None)
    waiting.watch()
    waiting.leave()
    waiting.leave()
    assert waiting not in sys.meta_path
