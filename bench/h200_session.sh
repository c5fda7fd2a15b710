#!/usr/bin/env bash
# Everything that is measured on the GPU machine, in one go; results go to the folder given.
# There: Python 3.12, torch with CUDA, psutil, pynvml, typer, rich; nothing of the reading wing.
set -u
out=${1:?folder for the results}
export PYTHONPATH=src PYTHONUNBUFFERED=1
work=$(mktemp -d)
python3 -m trainload detect --json > "$out/detect.json"
python3 -m trainload run mlp --epochs 40 --batch-size 512 --out "$work/runs" 2>&1 | tail -5
python3 -m trainload.run mlp --set epochs=6 --set batch_size=64 --setting cpu0-1+gpu0 --out "$work/runs" 2>&1 | tail -3
python3 -m trainload run mlp --epochs 1 --batch-size 330000 --set frames_fraction=4 --set hidden_units=32768 --timeout 150 --out "$work/oom" 2>&1 | tail -4
tar -czf "$out/runs.tar.gz" -C "$work" runs oom
python3 bench/sampler_overhead.py --device cuda --seconds "${2:-150}" --json "$out/sampler_overhead_h200.json" 2>&1 | tee "$out/sampler_overhead_h200.txt"
python3 -m pytest -q -o addopts= -o filterwarnings=default -p no:cacheprovider -m gpu tests/meters/test_meter_nvml.py tests/worker/test_worker_torch.py 2>&1 | tail -5
