"""The loop that the overhead benches time: the perceptron of the load analysis, plainly in torch.

Blocks of equal step counts are timed under different monitors; ratios are taken within a round,
so that slow drift of the machine cancels.
"""

import itertools
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable

import psutil
import torch

BATCH_SIZE = 64
STUDY_L_EVERY = BATCH_SIZE // 4
"""The load analysis (Finocchiaro 2024) looked at the machine every batch/4 iterations."""


class Loop:
    """A perceptron in training, advanced block by block."""

    def __init__(self, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        sizes = [75, 512, 512, 512]
        layers: list[torch.nn.Module] = []
        for inputs, units in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(inputs, units), torch.nn.ReLU()]
        self.device = torch.device(device)
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(512, 10)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, weight_decay=1e-4)
        self.features = torch.randn(80000, 75)
        self.labels = torch.randint(0, 10, (80000,))
        self.step = 0

    def run(self, steps: int, in_loop: Callable[[], None] | None = None) -> float:
        """Seconds that a block of steps takes, the device's work included."""
        self._synchronise()
        start_s = time.perf_counter()
        for _ in range(steps):
            first = (self.step * BATCH_SIZE) % (80000 - BATCH_SIZE)
            inputs = self.features[first : first + BATCH_SIZE].to(self.device)
            labels = self.labels[first : first + BATCH_SIZE].to(self.device)
            self.optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(self.model(inputs), labels).backward()
            self.optimizer.step()
            self.step += 1
            if in_loop is not None and self.step % STUDY_L_EVERY == 0:
                in_loop()
        self._synchronise()
        return time.perf_counter() - start_s

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def load_analysis_monitor() -> tuple[Callable[[], None], str]:
    """The load analysis's look at the machine: two processes started and psutil asked, in the loop.

    Without nvidia-smi its place is taken by `true`, which only starts and ends: a lower bound.
    """
    command = shutil.which("nvidia-smi")
    if command:
        query = [
            command,
            "--query-gpu=index,uuid,utilization.gpu,memory.total,memory.used,memory.free",
            "--format=csv,noheader,nounits",
        ]
        name = "load analysis in-loop (2 × nvidia-smi + psutil)"
    else:
        query = [shutil.which("true") or "/bin/true"]
        name = "load analysis in-loop (2 × `true` for nvidia-smi + psutil)"

    def look() -> None:
        for _ in range(2):
            subprocess.run(query, stdout=subprocess.DEVNULL, check=False)
        psutil.cpu_percent()
        psutil.virtual_memory()

    return look, name


class PsutilThread:
    """psutil asked ten times a second from a thread of the training process."""

    def __init__(self, rate_hz: float = 10.0) -> None:
        self._period_s = 1.0 / rate_hz
        self._active = threading.Event()
        self._process = psutil.Process(os.getpid())
        threading.Thread(target=self._poll, daemon=True).start()

    def start(self) -> None:
        self._active.set()

    def stop(self) -> None:
        self._active.clear()

    def _poll(self) -> None:
        while True:
            self._active.wait()
            psutil.cpu_percent(percpu=True)
            psutil.cpu_freq(percpu=True)
            psutil.virtual_memory()
            psutil.swap_memory()
            psutil.disk_io_counters()
            psutil.net_io_counters()
            self._process.cpu_times()
            self._process.memory_info()
            self._process.num_threads()
            time.sleep(self._period_s)
