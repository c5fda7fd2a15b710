"""Measures what torch's own libraries take by being used for the first time; run as a script.

`python libraries.py` trains three steps of a network of a few kilobytes on the CPU and prints one
line of JSON: the growth of resident memory in bytes from before the model is built to the peak, or
null where the system does not tell. Needs torch alone.

The growth is pages of libraries and modules that torch loads with its first optimizer. It differs
between builds: one for CUDA loads more than one for the CPU.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """The growth, printed."""
    # As a script this file's folder stands first, and its modules are not to be taken for others'.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    import torch
    from torch import nn

    from trainload_worker.process.memory_peaks import MemoryPeaks

    peaks = MemoryPeaks()
    parts = (nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(676, 10))
    model = nn.Sequential(*parts)
    optimizer = torch.optim.Adam(model.parameters())
    rows, labels = torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.int64)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
    found = peaks.read()
    start, peak = found.start_rss_bytes, found.peak_rss_bytes
    print(json.dumps(None if start is None or peak is None else peak - start))  # noqa: T201


if __name__ == "__main__":
    main()
