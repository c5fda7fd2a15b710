"""The programs that need torch, by name."""

from __future__ import annotations

from typing import Callable, Dict

from trainload_worker.frameworks.torch.limits.complexity import measure_forward
from trainload_worker.frameworks.torch.limits.holding import (
    measure_largest,
    measure_peaks,
    measure_resident,
)
from trainload_worker.frameworks.torch.limits.memorising import measure_memory
from trainload_worker.frameworks.torch.limits.rates import measure_copies, measure_matrices
from trainload_worker.frameworks.torch.limits.trainings import (
    measure_at_once,
    measure_batches,
    measure_huge_pages,
    measure_need,
    measure_same,
    measure_threads,
    measure_working_set,
)
from trainload_worker.limits.sampling import Place
from trainload_worker.protocol.measure import Measured

PROGRAMS: Dict[str, Callable[[Place], Measured]] = {
    "matrix-rate": measure_matrices,
    "device-bandwidth": measure_copies,
    "training-threads": measure_threads,
    "trainings-at-once": measure_at_once,
    "same-results": measure_same,
    "huge-page-training": measure_huge_pages,
    "batch-time": measure_batches,
    "data-working-set": measure_working_set,
    "forward-time": measure_forward,
    "memorise": measure_memory,
    "training-memory": measure_peaks,
    "loader-need": measure_need,
    "resident-data": measure_resident,
    "largest-batch": measure_largest,
}
