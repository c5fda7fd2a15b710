"""Words and sentences that the terminal and the HTML report share; plain text, no markup."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from trainload.record import OverheadMeasurement, SamplerUse
from trainload.units import (
    MISSING,
    render_bytes,
    render_percent,
    render_seconds,
    render_value,
    unit_of,
)

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BIDI = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

OUTCOME_WORDS: Mapping[str | None, str] = {
    None: "running",
    "completed": "completed",
    "failed": "failed",
    "out_of_memory": "out of memory",
    "killed": "killed",
    "timed_out": "timed out",
    "interrupted": "interrupted",
}


def clean_text(value: Any, *, lines: bool = False) -> str:
    """Text of others made safe to show: no control, escape or text-direction characters.

    Line ends become spaces unless `lines` keeps them; half characters become U+FFFD.
    """
    text = _ANSI.sub("", str(value))
    return "".join(_clean_character(c, lines) for c in text)


def _clean_character(character: str, lines: bool) -> str:
    if character in "\n\t\r":
        return character if lines and character != "\r" else " "
    if character in _BIDI:
        return ""
    category = unicodedata.category(character)
    if category == "Cs":
        return "\ufffd"
    if category in ("Zl", "Zp"):
        return " "
    return "" if category == "Cc" else character


def render_sentence(text: str) -> str:
    """The text with a capital at its beginning and a stop at its end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def render_outcome(outcome: str | None) -> str:
    """How the run ended, in words."""
    return OUTCOME_WORDS.get(outcome, clean_text(outcome))


def render_overhead(overhead: OverheadMeasurement | None) -> str:
    """The instrument's own overhead as one sentence, with its interval or why there is none."""
    if overhead is None:
        return "own overhead: not measured"
    interval = f"{_change(overhead.low)} … {_change(overhead.high)}"
    if overhead.verdict == "resolved":
        confidence = render_percent(overhead.confidence or 0.95, 0)
        return (
            f"own overhead: {_change(overhead.ratio)} ({confidence} interval {interval}), "
            f"from {overhead.observations} alternations"
        )
    reason = clean_text(overhead.reason or "")
    if overhead.verdict == "not_resolvable":
        return f"own overhead: not resolvable: {reason or 'noise is larger'} ({interval})"
    return f"own overhead: not measured{f': {reason}' if reason else ''}"


def render_sampler(sampler: SamplerUse) -> str:
    """The sampler's rate, samples and own cost as one sentence."""
    if sampler == SamplerUse():
        return "sampler: no statistics"
    # The loop's own time: opening the meters is paid once, before the training begins.
    cpu_s, wall_s = sampler.loop_cpu_s, sampler.wall_s
    share = cpu_s / wall_s if cpu_s is not None and wall_s else None
    dearest = _dearest_meters(sampler.meter_cpu_s)
    parts = [
        f"{_figure(sampler.samples)} samples at {_figure(sampler.rate_hz)} Hz",
        f"{_figure(sampler.late)} late",
        f"{_figure(sampler.missed)} missed",
        f"{render_seconds(cpu_s)} of CPU time ({render_percent(share)} of one core"
        + (f"; dearest meters: {dearest})" if dearest else ")"),
        f"peak memory {render_bytes(sampler.peak_rss_bytes)}",
    ]
    if sampler.cores:
        parts.append(f"on {len(sampler.cores)} cores outside the setting")
    if sampler.paused_s:
        parts.append(f"paused for {render_seconds(sampler.paused_s)} to measure its own overhead")
    return "sampler: " + ", ".join(parts)


def _dearest_meters(cpu_s: Mapping[str, float], most: int = 3) -> str:
    """The meters whose reading cost most CPU time, with that time."""
    known = sorted(((spent_s, name) for name, spent_s in cpu_s.items()), reverse=True)[:most]
    return ", ".join(f"{clean_text(name)} {render_seconds(s)}" for s, name in known if s > 0)


def render_energy(energy_j: float | None, *, watt_hours: bool = True) -> str:
    """Energy in joules and, where asked, watt-hours; a dash when missing."""
    if energy_j is None:
        return MISSING
    for unit, worth in (("GJ", 1e9), ("MJ", 1e6), ("kJ", 1e3)):
        if abs(energy_j) >= worth:
            beside = f" ({energy_j / 3600:.3g} Wh)" if watt_hours else ""
            return f"{energy_j / worth:.3g} {unit}{beside}"
    return f"{energy_j:.3g} J"


def render_figure(column: str, value: float | None) -> str:
    """A figure in its column's unit; a plain number where the unit is a count."""
    if value is not None and unit_of(column) == "count":
        return f"{value:.4g}"
    if value is not None and unit_of(column) == "1/s" and abs(value) >= 1000:
        return f"{value:,.0f} 1/s"
    return render_energy(value) if unit_of(column) == "J" else render_value(column, value)


def render_list(value: Any) -> str:
    """A list in one line; a dash when empty or missing."""
    if isinstance(value, Mapping):
        value = [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, list | tuple):
        return ", ".join(clean_text(item) for item in value) or MISSING
    return MISSING if value is None else clean_text(value)


def render_refresh(refresh_s: float | None, observed_s: float | None = None) -> str:
    """How often a source really changes: as stated, else as observed, else unknown."""
    if refresh_s is not None:
        return render_seconds(refresh_s) if refresh_s > 0 else "at each read"
    return "unknown" if observed_s is None else f"{render_seconds(observed_s)} observed"


def _change(ratio: float | None) -> str:
    if ratio is None:
        return MISSING
    percent = (ratio - 1) * 100
    digits = 2 if 0 < abs(percent) < 0.095 else 1
    sign = "−" if round(percent, digits) < 0 else "+"
    return f"{sign}{abs(percent):.{digits}f} %"


def _figure(value: float | None) -> str:
    return MISSING if value is None else f"{value:g}" if value % 1 else f"{value:,.0f}"


_NAMES: Mapping[str, str] = {
    "step_s": "step time",
    "step_mean_s": "mean step time",
    "step_p5_s": "step time, 5 %",
    "step_p95_s": "step time, 95 %",
    "training_s": "training time",
    "duration_s": "total time",
    "epoch_s": "time per epoch",
    "examples_per_s": "examples per second",
    "mean_examples_per_s": "mean examples per second",
    "tokens_per_s": "tokens per second",
    "input_wait_s": "input wait",
    "run_cpu_s": "CPU time of the run",
    "host_cpu_busy_s": "CPU time of the host",
    "cgroup_cpu_s": "CPU time of the container",
    "batch_size": "batch size",
    "loss": "loss",
    "train_loss": "training loss",
    "mean_loss": "loss, mean over epochs",
    "validation_loss": "validation loss",
    "validation_accuracy": "accuracy",
    "mean_validation_accuracy": "accuracy, mean over epochs",
    "mean_top5_accuracy": "top-5 accuracy, mean over epochs",
    "best_accuracy": "best accuracy",
    "validation_f1_weighted": "F1 (weighted)",
    "validation_f1_macro": "F1 (macro)",
    "validation_top5_accuracy": "top-5 accuracy",
    "energy_j": "energy",
    "mean_power_w": "mean power",
    "gpu_load_fraction": "GPU load",
    "peak_host_bytes": "peak host memory",
    "peak_rss_bytes": "peak resident memory",
    "peak_allocated_bytes": "peak GPU memory allocated",
    "peak_reserved_bytes": "peak GPU memory reserved",
    "peak_gpu_bytes": "peak GPU memory held",
    "overhead_ratio": "own overhead",
    "layers_cost_s": "cost of tracing",
    "host_cpu_load_fraction": "CPU load",
    "run_cpu_load_fraction": "CPU load of the run",
    "cgroup_cpu_load_fraction": "CPU load of the container",
    "host_ram_used_bytes": "RAM",
    "host_ram_load_fraction": "RAM, share in use",
    "run_rss_bytes": "RAM of the run",
    "run_pss_bytes": "RAM of the run (PSS)",
    "cgroup_memory_used_bytes": "RAM of the container",
    "cgroup_memory_load_fraction": "RAM of the container, share in use",
    "cgroup_cpu_throttled_s": "time held back by the CPU limit",
    "run_read_bytes": "read by the run",
    "run_written_bytes": "written by the run",
    "disk_read_bytes": "read from disks",
    "disk_written_bytes": "written to disks",
    "net_received_bytes": "received by network",
    "net_sent_bytes": "sent by network",
    "host_swap_used_bytes": "swap",
    "host_swap_load_fraction": "swap, share in use",
    "run_threads_count": "threads",
    "run_kernel_s": "the run's time in the system",
    "run_page_faults_count": "page faults of the run",
    "run_processes_count": "processes",
    "tegra_gpu_load_fraction": "GPU load",
    "tegra_emc_load_fraction": "memory bus load",
    "tegra_ram_used_bytes": "RAM (shared with the GPU)",
    "tegra_swap_used_bytes": "swap",
    "tegra_power_w": "power of the board",
}
_NAME_PATTERNS = (
    (r"gpu(\d+)_load_fraction", "GPU {} load"),
    (r"gpu(\d+)_run_load_fraction", "GPU {} load of the run"),
    (r"gpu(\d+)_memory_used_bytes", "GPU {} memory"),
    (r"gpu(\d+)_memory_used_fraction", "GPU {} memory, share in use"),
    (r"gpu(\d+)_run_memory_bytes", "GPU {} memory of the run"),
    (r"gpu(\d+)_memory_busy_fraction", "GPU {} memory bus load"),
    (r"gpu(\d+)_power_w", "GPU {} power"),
    (r"gpu(\d+)_energy_j", "GPU {} energy"),
    (r"gpu(\d+)_temperature_celsius", "GPU {} temperature"),
    (r"gpu(\d+)_(\w+)_clock_hz", "GPU {} {} clock"),
    (r"(?:host|tegra)_cpu(\d+)_load_fraction", "core {} load"),
    (r"(?:host|tegra)_cpu(\d+)_clock_hz", "core {} clock"),
    (r"rapl_(\w+)_power_w", "power of {} (RAPL)"),
    (r"rapl_(\w+)_energy_j", "energy of {} (RAPL)"),
    (r"tegra_rail_(\w+)_power_w", "power of rail {}"),
    (r"tegra_temp_(\w+)_celsius", "temperature of {}"),
    (r"(\w+)_power_w", "power of {}"),
    (r"(\w+)_celsius", "temperature of {}"),
)


def render_name(name: str) -> str:
    """A metric or column under the name that people use; cleaned as it is where there is none."""
    if name in _NAMES:
        return _NAMES[name]
    for pattern, words in _NAME_PATTERNS:
        if found := re.fullmatch(pattern, name):
            return clean_text(words.format(*(part.replace("_", " ") for part in found.groups())))
    return clean_text(name)


def render_metric(name: str, value: float | None) -> str:
    """A metric's value for people: scores as percentages, rates and the rest by their unit."""
    if value is None:
        return MISSING
    if name.endswith("accuracy") or "_f1_" in name:
        return render_percent(value)
    if unit_of(name) == "1/s":
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if unit_of(name) == "J":
        return render_energy(value, watt_hours=False)
    return render_value(name, value)


_ORIGINS: Mapping[str, str] = {
    "step_s": "measured: median of the steps after warm-up",
    "training_s": "measured: sum of all steps, warm-up included",
    "duration_s": "measured: from the start of the run to its end",
    "examples_per_s": "measured: examples of the median step after warm-up, over its time",
    "energy_j": "over the training, from the first source that told it; the run names the source",
    "best_accuracy": "measured on the validation set: the best epoch",
    "validation_accuracy": "measured on the validation set: the last epoch",
    "validation_f1_weighted": "measured on the validation set: the last epoch",
    "peak_gpu_bytes": "measured: most that the run's processes held, as the driver tells",
    "peak_allocated_bytes": "measured: most that the framework's allocator gave out",
    "peak_host_bytes": "measured: most memory of the run's processes on the host",
}


def render_origin(metric: str) -> str:
    """Where a headline figure comes from, for a hover; its column's name where nothing is known."""
    return _ORIGINS.get(metric, clean_text(metric))
