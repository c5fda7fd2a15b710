"""Has torch's compiler leave the modules of each kernel in the code it writes, and reads them back.

Inductor knows of which graph nodes it makes a kernel, and each node the modules it stands in; both
are gone once the code runs. A comment before each call keeps them, and stays with the code in the
compiler's cache. Nothing else of the code changes. Where torch's insides are others than expected,
compiled regions count to the module that calls them, as ever.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import sys
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from trainload_worker.protocol.windows import CompiledGraph

CACHE_TAG = "trainload-1"
"""Part of the compiler's cache keys: code compiled without the comments is no use to us."""
_TAG_VARIABLE = "TORCH_COMPILE_CACHE_KEY_TAG"
_MARK = "trainload: "
MOST_CALLS = 20_000
"""Calls of one graph that are kept."""

_HEAVY = re.compile(
    r"(addmm|baddbmm|bmm|mm|mv|linear|convolution\w*|_scaled_mm|\w*scaled_dot_product\w*"
    r"|\w*flash_attention\w*|\w*efficient_attention\w*|_cudnn_rnn\w*|flex_attention\w*)$"
)
"""Nodes beside which the others of a kernel weigh nothing: products, convolutions, attention."""
_FREE = frozenset(
    {
        "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "squeeze",
        "unsqueeze", "slice", "select", "alias", "detach", "as_strided", "getitem", "split",
        "split_with_sizes", "unbind",
    }
)  # fmt: skip
"""Nodes that only look at a tensor in another way."""
_CALLS = re.compile(
    r"(?<![\w.])(?:(triton_\w+|cpp_fused\w*)(?:\.run)?|extern_kernels\.(\w+)"
    r"|torch\.ops\.\w+\.(\w+)(?:\.\w+)?|aten\.(\w+)(?:\.\w+)?)\("
)
_STEP_OF_PATH = re.compile(r"\._modules\['([^']*)'\]|\['([^']*)'\]|\[(\d+)\]|\.([A-Za-z_]\w*|\d+)")
_ROOT_OF_PATH = re.compile(r"[LG]\['([^']*)'\]|(\w+)")

Shares = Tuple[Tuple[str, str, float], ...]
"""Root, path and share of each module in a kernel; the shares sum to one."""


class CompiledGraphs:
    """The graphs compiled in this process since `follow` was first called."""

    def __init__(self) -> None:
        self._graphs: List[Any] = []
        self._follows = False

    def follow(self) -> None:
        """Has every graph compiled from now on carry its modules, and be known here."""
        if self._follows:
            _after.resume()
            return
        self._follows = True
        _set_cache_tag()
        _after_import("torch._inductor.ir", _comment_extern_kernels)
        _after_import("torch._inductor.codegen.triton", _comment_triton_kernels)
        _after_import("torch._inductor.codegen.cpp", _comment_cpp_kernels)
        _after_import("torch._inductor.output_code", self._follow_graphs)

    def leave(self) -> None:
        """Waits for no part of the compiler until `follow`; those that came stay as they are."""
        _after.pause()

    def _follow_graphs(self, module: Any) -> None:
        graph_class = module.CompiledFxGraph
        original = graph_class.post_compile
        graphs = self._graphs

        def post_compile(graph: Any, *args: Any, **kwargs: Any) -> Any:
            graphs.append(weakref.ref(graph))
            return original(graph, *args, **kwargs)

        graph_class.post_compile = post_compile

    def others_than(self, told: Set[str]) -> Iterator[CompiledGraph]:
        """The graphs not told of yet whose code says whose its kernels are; adds their keys."""
        for reference in self._graphs:
            graph = reference()
            key = getattr(graph, "_fx_graph_cache_key", None)
            if graph is None or not key or key in told:
                continue
            told.add(key)
            calls = read_calls(_source_of(graph))
            if calls:
                yield CompiledGraph(key, tuple(calls[:MOST_CALLS]))


def read_calls(source: str) -> List[Tuple[str, Shares]]:
    """The calls of a compiled graph in order, each with whose it is; those unknown have no share.

    Names are those of the kernel or of the operation as a trace has it, without its namespace.
    """
    found: List[Tuple[str, Shares]] = []
    marked: Optional[Shares] = None
    for line in source.splitlines():
        text = line.strip()
        if text.startswith(("#", "//")):
            _, mark, told = text.partition(_MARK)
            if mark and text.lstrip("#/ ").startswith(_MARK):
                marked = tuple((root, path, share) for root, path, share in json.loads(told))
            continue
        if marked is None:
            continue
        call = _CALLS.search(text)
        if call is not None:
            found.append((next(name for name in call.groups() if name), marked))
            marked = None
    return found


def share_out(nodes: Iterable[Any]) -> Shares:
    """How a kernel made of these graph nodes is shared over their modules.

    Products, convolutions and attention take all of it, by their number of elements; without any
    each node counts as many as the elements of what it reads or makes, whichever are more.
    Nodes of no module count nothing beside others that have one.
    """
    weights: Dict[Tuple[str, str], float] = {}
    heavy: Dict[Tuple[str, str], float] = {}
    for node in nodes:
        place = _module_of(node)
        if place is None:
            continue
        name = str(getattr(node.target, "__name__", node.target)).split(".")[0]
        elements = 1e-6 if name in _FREE else _elements(node)
        weights[place] = weights.get(place, 0.0) + elements
        if _HEAVY.match(name):
            heavy[place] = heavy.get(place, 0.0) + elements
    chosen = heavy or weights
    whole = sum(chosen.values())
    return tuple((root, path, weight / whole) for (root, path), weight in chosen.items())


def split_path(text: str) -> Tuple[str, str]:
    """Root and path of a module by the compiler's name: `L['self'].h[0].attn` is self, h.0.attn."""
    root = _ROOT_OF_PATH.match(text)
    if root is None:
        return "", ""
    steps = _STEP_OF_PATH.findall(text, root.end())
    path = [next(part for part in step if part) for step in steps if any(step)]
    return root.group(1) or root.group(2), ".".join(part for part in path if part != "_modules")


def _module_of(node: Any) -> Optional[Tuple[str, str]]:
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return None
    innermost = list(stack.values())[-1]
    return split_path(str(innermost[0]))


def _elements(node: Any) -> float:
    """Of what a node makes or reads, whichever are more; at least one."""
    sizes = [_size(node.meta.get("val"))]
    sizes += [_size(source.meta.get("val")) for source in node.all_input_nodes]
    return float(max(*sizes, 1))


def _size(value: Any) -> int:
    if isinstance(value, (tuple, list)):
        return max(map(_size, value), default=0)
    try:
        return int(value.numel())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return 0  # no tensor, or one whose size is known at run time alone


def _source_of(graph: Any) -> str:
    source = getattr(graph, "source_code", None)
    return source if isinstance(source, str) else ""


def _comment_extern_kernels(module: Any) -> None:
    def nodes_of(kernel: Any, *_: Any) -> Iterable[Any]:
        origin = getattr(kernel, "origin_node", None)
        return [origin] if origin is not None else kernel.origins

    _add_comments(module.ExternKernel, nodes_of, lambda _, wrapper, *__: wrapper)


def _comment_triton_kernels(module: Any) -> None:
    _add_comments(module.TritonScheduling, _scheduled_nodes, _current_wrapper)


def _comment_cpp_kernels(module: Any) -> None:
    _add_comments(module.CppScheduling, _scheduled_nodes, _current_wrapper)


def _scheduled_nodes(_: Any, schedule: Sequence[Any], *__: Any) -> Iterable[Any]:
    found: Dict[Any, None] = {}
    for entry in schedule:
        made = getattr(entry, "node", None)
        found.update(dict.fromkeys(getattr(made, "origins", None) or ()))
    return found


def _current_wrapper(*_: Any) -> Any:
    from torch._inductor.virtualized import V

    return V.graph.wrapper_code


def _add_comments(
    cls: Any, nodes_of: Callable[..., Iterable[Any]], wrapper_of: Callable[..., Any]
) -> None:
    """Has the class leave a comment with the modules after its own one."""
    original = cls.__dict__.get("codegen_comment")
    if original is None:
        return

    def codegen_comment(self: Any, *args: Any, **kwargs: Any) -> Any:
        done = original(self, *args, **kwargs)
        try:
            wrapper = wrapper_of(self, *args)
            shares = [
                (root, path, round(s, 6)) for root, path, s in share_out(nodes_of(self, *args))
            ]
            wrapper.make_comment(f"{wrapper.comment} {_MARK}{json.dumps(shares)}")
        except Exception:  # noqa: BLE001 - a nameless kernel is no reason to end a compilation
            return done
        return done

    cls.codegen_comment = codegen_comment


def _set_cache_tag() -> None:
    """Keeps compiled code with the comments apart from code without; the user's tag stays."""
    tag = os.environ.get(_TAG_VARIABLE, "")
    if CACHE_TAG in tag:
        return
    ours = f"{tag}+{CACHE_TAG}" if tag else CACHE_TAG
    os.environ[_TAG_VARIABLE] = ours

    def set_tag(config: Any) -> None:
        if hasattr(config, "cache_key_tag"):
            config.cache_key_tag = ours

    _after_import("torch.compiler.config", set_tag)


compiled_graphs = CompiledGraphs()
"""Of this process."""


class _AfterImport:
    """Finds modules as ever and calls back once one that is waited for has been run."""

    def __init__(self) -> None:
        self.waiting: Dict[str, Callable[[Any], None]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        act = self.waiting.pop(name, None)
        if act is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            _attempt(act, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def pause(self) -> None:
        """Python's imports are its own again."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def resume(self) -> None:
        """Waits again for what has not come; what came meanwhile is seen to now."""
        waiting, self.waiting = self.waiting, {}
        for name, act in waiting.items():
            _after_import(name, act)


_after = _AfterImport()


def _after_import(name: str, act: Callable[[Any], None]) -> None:
    """Does something with a module: now, or once it is imported."""
    module = sys.modules.get(name)
    if module is not None:
        _attempt(act, module)
        return
    _after.waiting[name] = act
    if _after not in sys.meta_path:
        sys.meta_path.insert(0, _after)


def _attempt(act: Callable[[Any], None], module: Any) -> None:
    try:
        act(module)
    except AttributeError:
        return  # a torch whose insides are others: its regions stay whole
