"""Windows that a live view works out: only files of a window's name, of bounded size."""

import os

import pytest

from trainload.analyse.live import layers
from trainload.analyse.live.layers import read_window_layers
from trainload.errors import TraceError
from trainload_worker.protocol.windows import WindowSaved


def window(name):
    return WindowSaved(index=3, file=name, begin_s=1.0, end_s=2.0, cost_s=0.1, purpose="time")


@pytest.mark.parametrize(
    "name",
    ["../window-0000.json", "/etc/passwd", "run.json", "window-0.json\0", "window-/../x.json"],
)
def test_no_path_of_a_record_is_obeyed(tmp_path, name):
    with pytest.raises(TraceError, match="no name of a window"):
        read_window_layers(tmp_path, window(name), None)


def test_links_pipes_and_missing_files_are_errors_in_words(tmp_path):
    (tmp_path / "outside").write_text("[]")
    os.symlink(tmp_path / "outside", tmp_path / "window-0001.json")
    os.mkfifo(tmp_path / "window-0002.json")
    for name in ("window-0000.json", "window-0001.json", "window-0002.json"):
        with pytest.raises(TraceError, match="cannot read"):
            read_window_layers(tmp_path, window(name), None)


def test_a_large_window_is_left_for_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(layers, "LARGEST_BYTES", 10)
    (tmp_path / "window-0000.json").write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match="at the end"):
        read_window_layers(tmp_path, window("window-0000.json"), None)


def test_what_is_no_trace_is_an_error_in_words(tmp_path):
    (tmp_path / "window-0000.json").write_text('{"traceEvents": [{}, 1, null], "traceName": "x"}')
    with pytest.raises(TraceError):
        read_window_layers(tmp_path, window("window-0000.json"), None)
