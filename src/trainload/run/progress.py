"""One line that says where a run stands; text only, printing is the caller's duty."""

import re
from collections.abc import Callable

from trainload.run.request import RunProgress
from trainload.units import render_bytes, render_percent, render_seconds

SILENT_AFTER_S = 30.0
_SHOWN_LOADS = (
    (re.compile("host_cpu_load_fraction"), "cpu"),
    (re.compile(r"gpu\d+_load_fraction"), "gpu"),
    (re.compile(r"gpu\d+_memory_used_bytes"), "vram"),
    (re.compile("run_rss_bytes"), "ram"),
    (re.compile(r"gpu\d+_power_w"), "power"),
)
"""Column and label; of several GPUs the first one is shown."""


def show_as_text(show: Callable[[str], None] | None) -> Callable[[RunProgress], None] | None:
    """A function for progress from one for text; a warning is a text that ends its line."""
    if show is None:
        return None

    def tell(progress: RunProgress) -> None:
        if progress.warning:
            show(f"warning: {progress.warning}\n")
        show(render_progress(progress, 300))

    return tell


def render_progress(progress: RunProgress, width: int = 120) -> str:
    """Epoch, step, rate, loss, loads and time left; cut to `width` characters."""
    parts = [f"{render_seconds(progress.elapsed_s):>8}"]
    if progress.step == 0:
        parts.append(progress.phase)
    else:
        if progress.epoch is not None and progress.epochs is not None:
            parts.append(f"epoch {progress.epoch + 1}/{progress.epochs}")
        parts.append(_render_steps(progress))
        if progress.steps_per_s is not None:
            parts.append(f"{progress.steps_per_s:.3g} step/s")
        if progress.loss is not None:
            parts.append(f"loss {progress.loss:.4g}")
    for pattern, label in _SHOWN_LOADS:
        column = next((name for name in progress.loads if pattern.fullmatch(name)), None)
        if column is not None:
            parts.append(f"{label} {_render_load(column, progress.loads[column])}")
    if progress.remaining_s is not None:
        parts.append(f"{render_seconds(progress.remaining_s)} left")
    if progress.silent_s > SILENT_AFTER_S:
        parts.append(f"no word from the worker for {render_seconds(progress.silent_s)}")
    line = " · ".join(parts)
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"


def _render_steps(progress: RunProgress) -> str:
    if not progress.total_steps:
        return f"step {progress.step}"
    share = min(1.0, progress.step / progress.total_steps)
    filled = round(share * 10)
    bar = "█" * filled + "░" * (10 - filled)
    return f"{bar} step {progress.step}/{progress.total_steps}"


def _render_load(column: str, value: float) -> str:
    if column.endswith("_fraction"):
        return render_percent(value, 0)
    return f"{value:.0f} W" if column.endswith("_w") else render_bytes(value)
