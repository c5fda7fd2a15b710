#!/usr/bin/env bash
# Everything that is measured on a GPU machine, in one go; results go to the folder given.
# Needs there: Python 3.11 or later, torch with CUDA, psutil, nvidia-ml-py, typer, rich; nothing of
# the reading wing. Read the runs elsewhere: tar -xzf runs.tar.gz; trainload report runs/*.
set -u
out=${1:?folder for the results}
seconds=${2:-330}
export PYTHONPATH=src PYTHONUNBUFFERED=1
work=$(mktemp -d)
python3 -m trainload detect --json > "$out/detect.json"
python3 -m trainload run mlp --epochs 40 --out "$work/runs" 2>&1 | tail -5
python3 -m trainload.run mlp --set epochs=6 --set batch_size=64 --setting cpu0-1+gpu0 --out "$work/runs" 2>&1 | tail -3
# More than the device holds: the outcome must be out_of_memory.
python3 -m trainload run mlp --epochs 1 --batch-size 330000 --set frames_fraction=4 \
  --set hidden_units=32768 --timeout 150 --out "$work/oom" 2>&1 | tail -4
tar -czf "$out/runs.tar.gz" -C "$work" runs oom
python3 bench/meter_cost.py --json "$out/meter_cost_gpu.json"
python3 bench/sampler_overhead.py --device cuda --seconds "$seconds" --within 0.0045 \
  --json "$out/sampler_overhead_gpu.json" 2>&1 | tee "$out/sampler_overhead_gpu.txt"
python3 -m pytest -q -o addopts= -o filterwarnings=default -p no:cacheprovider -m gpu \
  tests/meters/test_meter_nvml.py tests/worker/test_worker_torch.py 2>&1 | tail -5
