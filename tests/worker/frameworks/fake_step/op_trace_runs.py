"""Traces many specifications, each in a fork of one process that has loaded torch once.

`python op_trace_runs.py` reads a list of specifications from standard input.
"""

import json
import os
import sys

import torch

from trainload_worker.frameworks.torch.fake_step.trace import trace_step
from trainload_worker.process.endings import classify
from trainload_worker.process.events import EventWriter
from trainload_worker.protocol.spec import TraceSpec, parse_spec


def main() -> None:
    torch.set_num_threads(1)
    for document in json.load(sys.stdin):
        if os.fork() == 0:
            _trace(document)
            sys.stdout.flush()
            os._exit(0)
        os.wait()


def _trace(document: dict) -> None:
    spec = parse_spec(json.dumps(document))
    assert isinstance(spec, TraceSpec)
    events = EventWriter(spec.events_path)
    try:
        events.write(trace_step(spec, events))
    except BaseException as error:  # noqa: BLE001 - as the worker does
        events.write(classify(error, "trace"))


if __name__ == "__main__":
    main()
