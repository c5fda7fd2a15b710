"""Reads a Kineto trace of some hundred megabytes and prints the time and the peak memory.

Run: python bench/big_trace.py [megabytes] [trace.json.gz]
The big trace is the given one, else one of a made-up model, repeated on a later clock.
"""

import gzip
import json
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_TS = re.compile(r'"ts": ?(\d+)(\.\d+)?')
_COUNTED = re.compile(r'"(correlation|Sequence number|id)": ?(\d+)')


def small_events(layers: int = 40, steps: int = 3) -> list[dict[str, Any]]:
    """Events as Kineto writes them of a chain of layers on a GPU, forward, backward, update."""
    events: list[dict[str, Any]] = []
    clock, number = 1_000_000.0, 0

    def add(name: str, length: float, thread: int, category: str = "cpu_op", **more: Any) -> None:
        nonlocal number
        number += 1
        arguments = {"External id": number, "Record function id": 0, "Ev Idx": number, **more}
        place = {"pid": 7, "tid": thread, "ts": round(clock, 3), "dur": length}
        events.append({"ph": "X", "cat": category, "name": name, **place, "args": arguments})

    def launch(length: float, thread: int) -> None:
        add("cudaLaunchKernel", 4.0, thread, "cuda_runtime", correlation=number + 1)
        kernel = {"pid": 0, "tid": 7, "ts": round(clock + 5, 3), "dur": length}
        arguments = {"device": 0, "stream": 7, "correlation": number, "grid": [16, 16, 1]}
        name = "void gemm_kernel<float>(int)"
        events.append({"ph": "X", "cat": "kernel", "name": name, **kernel, "args": arguments})

    for step in range(steps):
        add("layer:Chain:", 20.0 * layers, 1)
        for layer in range(layers):
            add(f"layer:Chain:{layer}", 19.0, 1)
            add("aten::linear", 15.0, 1, **{"Sequence number": layer, "Fwd thread id": 0})
            launch(8.5, 1)
            clock += 20
        for layer in reversed(range(layers)):
            node = {"Sequence number": layer, "Fwd thread id": 1}
            add("autograd::engine::evaluate_function: AddmmBackward0", 19.0, 2, **node)
            launch(14.25, 2)
            clock += 20
        add("Optimizer.step#SGD.step", 19.0, 1, "user_annotation")
        launch(3.125, 1)
        clock += 20
        add(f"trainload.step:{step}", 1.0, 1)
        clock += 5
    return events


def _load_events(source: Path) -> list[dict[str, Any]]:
    data = source.read_bytes()
    if source.suffix == ".gz":
        data = gzip.decompress(data)
    events = json.loads(data)["traceEvents"]
    return [e for e in events if isinstance(e.get("ts"), int | float) and e.get("ph") != "M"]


def write_big_trace(path: Path, megabytes: int, source: Path | None = None) -> int:
    """Write a trace again and again with later times until `path` is that large.

    Times, correlations and sequence numbers move on with each copy, as in one long trace.
    Without a source a small one of a made-up model is repeated. Answers the count of events.
    """
    events = _load_events(source) if source else small_events()
    begin = min(e["ts"] for e in events)
    length = int(max(e["ts"] + e.get("dur", 0) for e in events) - begin) + 5
    text = ",\n".join(json.dumps(e) for e in events)
    stride = max((int(n) for _, n in _COUNTED.findall(text)), default=0) + 1
    copies = max(1, megabytes * 1_000_000 // len(text))
    with path.open("w") as out:
        out.write('{"schemaVersion": 1, "traceEvents": [\n')
        for copy in range(copies):
            by_us, by = copy * length, copy * stride
            shifted = _TS.sub(lambda m: f'"ts": {int(m[1]) + by_us}{m[2] or ""}', text)  # noqa: B023 - used at once
            shifted = _COUNTED.sub(lambda m: f'"{m[1]}": {int(m[2]) + by}', shifted)  # noqa: B023
            out.write((",\n" if copy else "") + shifted)
        out.write("\n]}\n")
    return copies * len(events)


def main() -> None:
    """Write, read, print; reading runs in this process, so its peak is the whole cost."""
    from trainload.analyse.attribution import collect_trace

    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    source = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.json"
        events = write_big_trace(path, megabytes, source)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        begun = time.perf_counter()
        layers = collect_trace(path)
        took_s = time.perf_counter() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        steps = layers.rows.select("window", "step").unique().height
    print(f"{events} events, {steps} numbered steps, explained {layers.explained_fraction:.4f}")
    print(f"{took_s:.1f} s; peak {peak / 1e9:.2f} GB ({before / 1e9:.2f} GB before reading)")


if __name__ == "__main__":
    main()
