"""When torch's compiler worked and why it began anew: by its own account, held to records of it."""

import sys
import time
from types import SimpleNamespace

import pytest

from trainload_worker.frameworks.torch import compilations
from trainload_worker.frameworks.torch.compilations import Compilations, describe, is_again

pytest.importorskip("torch")


class Told(list):
    """What would be written."""

    def write(self, event):
        self.append(event)


def compiled(number, begin=1.0, **other):
    now = time.time()
    told = {"co_name": "forward", "co_filename": "/home/someone/net.py", "co_firstlineno": 6}
    told |= {"compile_id": number, "fail_reason": None, "recompile_reason": None} | other
    return SimpleNamespace(
        start_time_us=(now - begin) * 1e6, end_time_us=(now - begin + 0.5) * 1e6, **told
    )


@pytest.fixture
def kept(monkeypatch):
    found = []
    compiler = SimpleNamespace(get_compilation_metrics=lambda: list(found))
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", compiler)
    return found


@pytest.mark.parametrize(
    ("number", "again"),
    [
        ("0/0", False),
        ("3/2", True),
        ("0/0_1", False),
        ("1/0/4", True),
        ("!2", False),
        ("None", False),
    ],
)
def test_the_second_of_a_frame_is_again(number, again):
    assert is_again(number) is again


def test_each_is_told_once_by_the_monotonic_clock(kept):
    events = Told()
    watched = Compilations(events)
    watched.look()
    kept.append(compiled("0/0"))
    watched.look()
    watched.look()
    kept.append(compiled("0/1", 0.6))
    watched.look()
    assert [(e.name, e.edge) for e in events] == [
        ("compile", "begin"), ("compile", "end"), ("recompile", "begin"), ("recompile", "end"),
    ]  # fmt: skip
    begin, end = events[0].t_s, events[1].t_s
    assert end - begin == pytest.approx(0.5, abs=1e-3)
    assert begin == pytest.approx(time.monotonic() - 1.0, abs=0.3)
    kept[:] = [compiled("1/0"), compiled("1/1")]  # the compiler has forgotten the others
    watched.look()
    assert [e.name for e in events[4:]] == ["compile", "compile", "recompile", "recompile"]


def test_hooks_of_a_window_are_not_the_program(kept):
    kept.append(compiled("0/0", co_filename=compilations.__file__))
    events = Told()
    Compilations(events).look()
    assert events == []


def test_a_compiler_with_other_insides_is_left_alone(kept):
    kept.append(SimpleNamespace(compile_id="0/0"))
    events = Told()
    watched = Compilations(events)
    watched.look()
    watched.look()
    (note,) = events
    assert note.words.startswith("compilations were not told: AttributeError")


def test_a_record_holds_so_many(kept, monkeypatch):
    monkeypatch.setattr(compilations, "MOST_COMPILATIONS", 2)
    kept += [compiled(f"{number}/0") for number in range(4)]
    events = Told()
    Compilations(events).look()
    assert len(events) == 2 * 2 + 1 and "first 2" in events[-1].words


def test_what_had_not_held_is_told_without_the_compilers_hints():
    guard = "0/0: self.k == 0      # return x * self.k  # net.py:7 in forward (HINT: make it so)"
    assert describe(compiled("0/1", recompile_reason=guard)) == (
        "forward (net.py:6); not so any more: self.k == 0"
    )
    limit = compiled("0/8", co_name=None, fail_reason="Dynamo recompile limit exceeded\n …")
    assert describe(limit) == "given up: too often, from here on it is not compiled"
    assert describe(compiled("0/0", co_name=None)) is None
    older = compiled("0/1")
    del older.recompile_reason  # torch 2.6
    assert describe(older) == "forward (net.py:6)"
