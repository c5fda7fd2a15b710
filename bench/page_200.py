"""The page of a study of 200 hours: what `trainload report` takes, and the page in Chromium.

    python bench/page_200.py [--runs 200] [--keep FOLDER] [--json FILE]

Makes sealed runs of 36,000 samples and 36,000 steps each in a grid of 5 × 4 × 2 cells (8 cores, one
GPU, 26 metered columns), reports them in a process of its own, and opens the page: time to the
first content and until it is ready, the frames while it is scrolled, and how long a filter and
another smoothing take. Beside the time on the wall stands that of the processor, which other load
does not stretch. Exit status 1 where a limit is passed by processor time, memory or size.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from trainload.api.loading import keep_figures, load
from trainload.record import create_run_directory, parse_manifest
from trainload.record.layout import EPOCHS_TABLE, MANIFEST, SAMPLES_TABLE, STEPS_TABLE

SAMPLES, STEPS = 36_000, 36_000
CORES = 8
GRID = {"model": ("a", "b", "c", "d", "e"), "batch_size": (16, 32, 64, 128), "precision": (16, 32)}
LIMITS = {"report_cpu_s": 10.0, "peak_bytes": 1.5 * 2**30, "html_bytes": 15e6, "ready_s": 3.0}
_LOADS = (
    "host_cpu_load_fraction", "run_cpu_load_fraction", "host_ram_load_fraction",
    "gpu0_load_fraction", "gpu0_memory_used_fraction",
    *(f"host_cpu{core}_load_fraction" for core in range(CORES)),
)  # fmt: skip
_SCALES = {
    "host_ram_used_bytes": 64e9, "run_rss_bytes": 20e9, "host_swap_used_bytes": 4e9,
    "gpu0_memory_used_bytes": 80e9, "gpu0_power_w": 700.0, "rapl_package_0_power_w": 250.0,
    "rapl_dram_power_w": 40.0, "gpu0_temperature_celsius": 90.0, "gpu0_sm_clock_hz": 1.9e9,
    "run_threads_count": 40.0, "run_processes_count": 4.0, "cgroup_memory_used_bytes": 30e9,
    "cgroup_cpu_load_fraction": 1.0,
}  # fmt: skip
_FRAMES = """async () => {
  const gaps = [];
  let last = performance.now();
  const end = last + 3000;
  while (performance.now() < end) {
    scrollBy(0, 60);
    await new Promise((done) => requestAnimationFrame(done));
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  gaps.sort((a, b) => a - b);
  return { frames: gaps.length, median_ms: gaps[gaps.length >> 1],
           p95_ms: gaps[Math.floor(gaps.length * 0.95)], longest_ms: gaps[gaps.length - 1] };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="make the study here, or use the one that is")
    parser.add_argument("--json", type=Path)
    words = parser.parse_args()
    folder = words.keep or Path(tempfile.mkdtemp(prefix="page-"))
    study = folder / "study"
    try:
        if not study.exists():
            make_study(study, words.runs)
        page = folder / "page.html"
        found = {"runs": words.runs, **measure_report(study, page)}
        found |= measure_page(page)
    finally:
        if words.keep is None:
            shutil.rmtree(folder)
    for name, value in found.items():
        print(f"{name:18} {value:.4g}" if isinstance(value, float) else f"{name:18} {value}")
    if words.json:
        words.json.write_text(json.dumps(found, indent=1) + "\n")
    passed = {name: found[name] for name, limit in LIMITS.items() if found.get(name, 0) > limit}
    if passed:
        sys.exit(f"past the limit: {passed}")


def make_study(study: Path, runs: int) -> None:
    """Sealed runs with tables of their own, and their figures."""
    for number in range(runs):
        cell, factors = number % 40, {}
        for name, levels in GRID.items():
            cell, at = divmod(cell, len(levels))
            factors[name] = levels[at]
        make_run(study / "runs", number, factors)
        if number % 20 == 19:
            print(f"  {number + 1} of {runs} made", file=sys.stderr)


def make_run(parent: Path, number: int, factors: dict[str, Any]) -> None:
    """One run of an hour at 10 Hz, and its steps, slower with the batch."""
    draw = np.random.default_rng(number)
    columns = [*_LOADS, *_SCALES]
    document = {
        "format": 1, "run_id": "replaced", "created": "2026-07-20T10:00:00Z",
        "trainload_version": "bench", "framework": "torch",
        "workload": {"model": f"model-{factors['model']}", "training": None},
        "clock": {"start_s": 0.0, "start_wall_s": 0.0, "end_s": 3601.0, "end_wall_s": 3601.0},
        "meters": [{"name": "bench", "period_s": 0.0, "quantities": [
            {"column": column, "provenance": "measured", "source": "bench", "cumulative": False}
            for column in columns]}],
        "phases": [{"name": "train", "start_s": 0.0, "end_s": 3600.0}],
        "study": {"study": "hours", "cell": str(number % 40), "repetition": number // 40,
                  "factors": factors},
        "outcome": "completed", "sealed": True,
    }  # fmt: skip
    run = create_run_directory(parent, "bench", parse_manifest(json.dumps(document), "the bench"))
    run.lock.free()
    path = run.path
    written = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**document, "run_id": written["run_id"]}))
    t_s = np.arange(SAMPLES) / 10 + 0.05
    level = 0.3 + 0.1 * factors["batch_size"] / 32
    wave = np.sin(t_s / (60 + 7 * number % 13)) * 0.1
    frame: dict[str, Any] = {
        "tick": np.arange(SAMPLES), "t_s": t_s, "read_s": np.full(SAMPLES, 3e-4),
        "sampler_cpu_s": t_s * 4e-4,
    }  # fmt: skip
    for column in columns:
        share = np.clip(level + wave + draw.normal(0, 0.05, SAMPLES), 0, 1)
        frame[column] = np.round(share * _SCALES.get(column, 1.0), 4)
    pl.DataFrame(frame).write_parquet(path / SAMPLES_TABLE, compression="zstd")
    step_s = 3600 / STEPS * np.exp(draw.normal(0, 0.05, STEPS)) * (1 + factors["batch_size"] / 500)
    step_s *= draw.lognormal(0, 0.01)
    ends = np.cumsum(step_s)
    steps = {
        "step": np.arange(STEPS), "epoch": np.arange(STEPS) // 3600, "start_s": ends - step_s,
        "end_s": ends, "step_s": step_s, "loss": 0.3 + 2 * np.exp(-np.arange(STEPS) / 5000),
        "examples": np.full(STEPS, factors["batch_size"]), "tokens": [None] * STEPS,
    }  # fmt: skip
    pl.DataFrame(steps).write_parquet(path / STEPS_TABLE, compression="zstd")
    epochs = {
        "epoch": np.arange(10), "start_s": np.arange(10) * 300.0, "end_s": np.arange(10) * 300.0,
        "train_s": np.full(10, 300.0), "validation_s": np.full(10, 1.0),
        "steps": np.full(10, 3600), "train_loss": np.linspace(2, 0.3, 10),
        "validation_accuracy": np.linspace(0.2, 0.8, 10) + draw.normal(0, 0.01),
        "validation_f1_weighted": np.linspace(0.2, 0.78, 10) + draw.normal(0, 0.01),
    }  # fmt: skip
    pl.DataFrame(epochs).write_parquet(path / EPOCHS_TABLE, compression="zstd")
    keep_figures(load(path))


def measure_report(study: Path, page: Path) -> dict[str, Any]:
    """Time, processor time, peak memory and size of the verb in a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began_s = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "trainload", "report", str(study), "--html", str(page)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    wall_s = time.monotonic() - began_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "report_s": wall_s,
        "report_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_bytes": after.ru_maxrss * 1024,
        "html_bytes": page.stat().st_size,
    }


def measure_page(page: Path) -> dict[str, Any]:
    """The page in Chromium; empty where there is none."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no chromium: the page is not opened", file=sys.stderr)
        return {}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        began_s = time.monotonic()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-many=yes]")
        tab.wait_for_function("document.querySelectorAll('tr[data-run]').length > 0")
        ready_s = time.monotonic() - began_s
        first = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        found: dict[str, Any] = {"first_content_s": tab.evaluate(first) / 1e3, "ready_s": ready_s}
        tab.evaluate("document.getElementById('curves').scrollIntoView()")
        tab.wait_for_selector("#curve-0 .main-svg")
        found["change_ms"] = {
            "filter": _changed(tab, "document.querySelector('input[data-factor]').click()"),
            "smoothing": _changed(tab, "document.querySelector('input[value=\"100\"]').click()"),
            "axis": _changed(tab, "document.querySelector('input[value=iteration]').click()"),
        }
        tab.evaluate("scrollTo(0, 0)")
        found["scroll"] = tab.evaluate(_FRAMES)
        found["plots_drawn"] = tab.locator(".canvas .main-svg").count()
        browser.close()
    return found


def _changed(tab: Any, act: str) -> float:
    """Milliseconds from an act to the frame after it."""
    return float(
        tab.evaluate(
            "async () => { const t = performance.now(); " + act + "; "
            "await new Promise((d) => requestAnimationFrame(() => setTimeout(d))); "
            "return performance.now() - t; }"
        )
    )


if __name__ == "__main__":
    main()
