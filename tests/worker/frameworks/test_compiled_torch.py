"""Compiled torch models: the modules of their kernels are kept in the code and read back."""

import importlib
import shutil
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework("torch")

from trainload.api.running import run  # noqa: E402
from trainload_worker.frameworks.torch import compiled  # noqa: E402
from trainload_worker.frameworks.torch.compiled import (  # noqa: E402
    read_calls,
    share_out,
    split_path,
)

SOURCE = """
async_compile.triton('triton_poi_fused_relu_0', '''# trainload: no mark of ours
''')
def call(args):
    # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.addmm]
    # trainload: [["self", "fc", 1.0]]
    extern_kernels.addmm(arg0, arg1, out=buf0)
    # trainload: [["self", "fc", 0.25], ["self", "act", 0.75]]
    stream0 = get_raw_stream(0)
    triton_poi_fused_relu_0.run(buf0, buf1, 128, stream=stream0)
    extern_kernels.mm(buf1, buf2, out=buf3)
    # trainload: []
    buf4 = torch.ops.aten._scaled_dot_product_flash_attention.default(buf1, buf1, buf1)
    return (buf4, )
"""

SCRIPT = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.second = nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)

    def forward(self, rows):
        return self.second(self.act(self.first(rows)))


torch.set_num_threads(1)
model = Net()
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for _ in range(40):
    loss = compiled(torch.randn(128, 256)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_imports_are_waited_for_only_while_graphs_are_followed(monkeypatch, tmp_path):
    (tmp_path / "late_part.py").write_text("VALUE = 3\n")
    (tmp_path / "missed_part.py").write_text("VALUE = 4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(compiled, "_after", compiled._AfterImport())
    graphs, seen, before = compiled.CompiledGraphs(), [], list(sys.meta_path)
    graphs._follows = True
    for name in ("late_part", "missed_part"):
        compiled._after_import(name, lambda module: seen.append(module.VALUE))
    graphs.leave()
    assert sys.meta_path == before
    importlib.import_module("missed_part")
    assert seen == []
    graphs.follow()
    assert seen == [4] and sys.meta_path != before
    importlib.import_module("late_part")
    assert seen == [4, 3]
    graphs.leave()
    graphs.leave()
    assert sys.meta_path == before
    for name in ("late_part", "missed_part"):
        monkeypatch.delitem(sys.modules, name)


def test_calls_are_read_with_the_modules_in_the_comment_before_them():
    assert read_calls(SOURCE) == [
        ("addmm", (("self", "fc", 1.0),)),
        ("triton_poi_fused_relu_0", (("self", "fc", 0.25), ("self", "act", 0.75))),
        ("_scaled_dot_product_flash_attention", ()),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L['self'].transformer.h[0].attn", ("self", "transformer.h.0.attn")),
        ("L['self']._modules['h']._modules['0']", ("self", "h.0")),
        ("L['self'].layers.3.mlp", ("self", "layers.3.mlp")),
        ("G['model']", ("model", "")),
        ("L['self']", ("self", "")),
    ],
)
def test_the_compilers_names_are_paths_of_modules(text, expected):
    assert split_path(text) == expected


def node(name, elements, path=None, backward=False):
    value = SimpleNamespace(numel=lambda: elements)
    key = "fwd_nn_module_stack" if backward else "nn_module_stack"
    stack = {} if path is None else {key: {"x": (f"L['self'].{path}", None)}}
    return SimpleNamespace(
        target=SimpleNamespace(__name__=f"{name}.default"),
        meta={"val": value, **stack},
        all_input_nodes=[],
    )


def test_a_kernel_is_shared_by_elements_and_views_weigh_nothing():
    shares = share_out([node("relu", 300, "a"), node("add", 100, "b"), node("view", 9999, "c")])
    assert {path: round(share, 3) for _, path, share in shares} == {"a": 0.75, "b": 0.25, "c": 0.0}


def test_a_product_takes_all_of_its_kernel():
    shares = share_out([node("mm", 10, "fc", backward=True), node("add", 1000, "norm")])
    assert [(path, share) for _, path, share in shares] == [("fc", 1.0)]


def test_nodes_of_no_module_count_nothing_beside_others():
    assert [s[1:] for s in share_out([node("add", 5), node("relu", 5, "a")])] == [("a", 1.0)]
    assert share_out([node("add", 5)]) == ()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler here")
@pytest.mark.long
def test_the_layers_of_a_compiled_script_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "compiled.py"
    script.write_text(SCRIPT)
    for _ in range(2):  # compiled, and then found in the compiler's cache
        done = run(
            script, layers=True, layer_budget=0.9, out=tmp_path / "runs", check_overhead=False
        )
        assert done.outcome == "completed", done.log
        rank = done.attribution.ranks[0]
        if torch.__version__ < "2.9":
            return
        nodes = {node.layer: node for node in rank.nodes}
        assert all(nodes[name].forward_s > 0 for name in ("first", "second"))
        assert all(nodes[name].backward_s > 0 for name in ("first", "second"))
        assert not any("compiled" in note for note in rank.notes)
