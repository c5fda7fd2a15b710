"""Names of the files in a run directory; every other room asks here."""

MANIFEST = "run.json"
EVENTS = "events.jsonl"
SAMPLES = "samples.jsonl"
STEPS_TABLE = "steps.parquet"
SAMPLES_TABLE = "samples.parquet"
EPOCHS_TABLE = "epochs.parquet"
WORKER_LOG = "worker.log"
SAMPLER_LOG = "sampler.log"
RESERVE = ".reserve"
"""Space held from the start so that the outcome can be written on a full disk."""

RESERVE_BYTES = 256 * 1024
