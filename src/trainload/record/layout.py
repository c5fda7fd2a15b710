"""Names of the files in a run directory; every other room asks here."""

import re

MANIFEST = "run.json"
EVENTS = "events.jsonl"
SAMPLES = "samples.jsonl"
STEPS_TABLE = "steps.parquet"
SAMPLES_TABLE = "samples.parquet"
EPOCHS_TABLE = "epochs.parquet"
LAYERS_TABLE = "layers.parquet"
WINDOW_GLOB = "window-*.json"
WINDOW_PLAN = "window-plan.txt"
"""Where processes that train together agree on windows."""
WINDOW_ASK = "window-ask.txt"
"""Stands there from when somebody asks for a window until the worker has seen it."""
EVENTS_GLOB = "events-r*.jsonl"
TRACE_GLOB = "trace*.json.gz"
OP_TRACE = "ops.jsonl.gz"
"""Operations, allocations and frees of a step that was traced and not run."""
ESTIMATE = "estimate.json"
"""What `trainload estimate` had said of the workload before it was run."""
PREDICTION = "prediction.json"
"""What `trainload predict` had said of the workload on that device."""
FIGURES = "summary.json"
"""The sealed run in figures, for whoever reads a thousand of them."""
WORKER_LOG = "worker.log"
SAMPLER_LOG = "sampler.log"
CHECKPOINT = "checkpoint.safetensors"
"""The model as the training left it."""
CHECKPOINT_FORM = "checkpoint-{epoch}.safetensors"
"""The model after that many epochs."""
CHECKPOINT_GLOB = "checkpoint-*.safetensors"
RESERVE = ".reserve"
"""Space held from the start so that the outcome can be written on a full disk."""

RESERVE_BYTES = 256 * 1024

_RANK = re.compile(r"-r([1-9]\d*)[-.]")


def events_file(rank: int) -> str:
    """The words of one process; the first one's file is the run's."""
    return EVENTS if rank == 0 else f"events-r{rank}.jsonl"


def steps_table(rank: int) -> str:
    """The steps of one process as columns; the first one's are the run's."""
    return STEPS_TABLE if rank == 0 else f"steps-r{rank}.parquet"


def window_form(rank: int) -> str:
    """A traced window as a process saved it, `{index}` its number; sealing joins them."""
    return "window-{index:04d}.json" if rank == 0 else f"window-r{rank}-{{index:04d}}.json"


def trace_file(rank: int) -> str:
    """All windows of one process as one Chrome trace."""
    return "trace.json.gz" if rank == 0 else f"trace-r{rank}.json.gz"


def rank_of(name: str) -> int | None:
    """Which process a file of the kinds above belongs to; None for another file."""
    if name in (EVENTS, STEPS_TABLE, trace_file(0)):
        return 0
    found = _RANK.search(name)
    return int(found.group(1)) if found else None
