"""The first figures of a run as rows of plain text: times, throughput, phases, memory, loss.

One step time leads, the median after warm-up; whatever else is shown of steps says what it is.
"""

from trainload.analyse import RunSummary, tells_losses
from trainload.record import Manifest
from trainload.report.wording import clean_text, render_energy
from trainload.units import MISSING, render_bytes, render_percent, render_seconds

Row = tuple[str, str]


def time_rows(summary: RunSummary) -> list[Row]:
    """Duration, training time, step time and throughput, warm-up stated; memory."""
    step = summary.step_time
    return [
        ("duration", render_seconds(summary.duration_s)),
        (
            "training time",
            f"{render_seconds(summary.training_s)} in {summary.steps:,} steps"
            if summary.steps
            else f"{MISSING} (no step was seen)",
        ),
        ("step time", f"{render_seconds(step.median_s)} (median, {render_warmup(summary)})"),
        ("throughput", render_throughput(summary)),
        (
            "all steps",
            f"mean {render_seconds(step.mean_s)}, 5 % … 95 % {render_seconds(step.p5_s)} … "
            f"{render_seconds(step.p95_s)}; {render_rate(summary.mean_examples_per_s)}"
            if step.p5_s is not None
            else MISSING,
        ),
        *_input_rows(summary),
        *phase_rows(summary),
        *memory_rows(summary),
        *_course_rows(summary),
    ]


def render_throughput(summary: RunSummary) -> str:
    """Examples and, where the input is such, tokens a second of the median step."""
    if summary.examples_per_s is None:
        return MISSING
    tokens = summary.tokens_per_s
    beside = "" if tokens is None else f", {render_rate(tokens, 'tokens/s')}"
    return f"{render_rate(summary.examples_per_s)}{beside} (of the median step)"


def phase_rows(summary: RunSummary) -> list[Row]:
    """Phases beside the training, with how long each took in all; no row without any."""
    if not summary.phases:
        return []
    told = [
        f"{clean_text(phase.name)} {render_seconds(phase.total_s)}"
        + (f" in {phase.count}" if phase.count > 1 else "")
        for phase in summary.phases
    ]
    return [("phases", " · ".join(told))]


_HOST_SOURCES = {
    "pss": "proportional (PSS): shared pages counted once; read every 5 s or more seldom",
    "rss": "resident size of its one process",
    "summed rss": "sum of resident sizes: pages that processes share count in each",
}


def memory_rows(summary: RunSummary) -> list[Row]:
    """The most memory on the GPU, where one was used, then on the host, each with its source."""
    peaks, rows = summary.peaks, []
    told = []
    if peaks.gpu_allocated_bytes is not None:
        told.append(
            f"{render_bytes(peaks.gpu_allocated_bytes)} allocated and "
            f"{render_bytes(peaks.gpu_reserved_bytes)} reserved by torch"
        )
    if peaks.gpu_process_bytes is not None:
        told.append(f"{render_bytes(peaks.gpu_process_bytes)} held by the run, as the driver tells")
    if told:
        rows.append(("peak GPU memory", "; ".join(told)))
    if peaks.host_bytes is None:
        return [*rows, ("peak host memory", MISSING)]
    source = _HOST_SOURCES[peaks.host_source or "summed rss"]
    return [*rows, ("peak host memory", f"{render_bytes(peaks.host_bytes)} ({source})")]


def _course_rows(summary: RunSummary) -> list[Row]:
    """What the training cost with the runs it continues; no row where it continues none."""
    course = summary.course
    if course is None:
        return []
    told = [
        f"{render_seconds(course.duration_s)}",
        f"training {render_seconds(course.training_s)} in {course.steps:,} steps",
    ]
    if course.energy_j is not None:
        told.append(f"{render_energy(course.energy_j)} ({clean_text(course.energy_source)})")
    runs = f"{course.runs} run{'' if course.runs == 1 else 's'}"
    lost = f"; {clean_text(course.missing)} is not beside it" if course.missing else ""
    return [("with those it continues", f"{', '.join(told)}, in {runs}{lost}")]


def _input_rows(summary: RunSummary) -> list[Row]:
    """How long steps waited for their rows; no row where nobody measured it."""
    wait_s = summary.input_wait_s
    if wait_s is None or not summary.training_s:
        return []
    share = render_percent(wait_s / summary.training_s)
    return [("input wait", f"{render_seconds(wait_s)} ({share} of the training time)")]


def render_warmup(summary: RunSummary) -> str:
    """How many steps were left out as warm-up."""
    count = summary.warmup.steps
    return f"{count} warm-up step{'' if count == 1 else 's'} left out"


def render_rate(per_s: float | None, unit: str = "examples/s") -> str:
    """A rate for people; a dash when missing."""
    if per_s is None:
        return MISSING
    return f"{per_s:,.0f} {unit}" if per_s >= 10 else f"{per_s:.3g} {unit}"


def loss_row(summary: RunSummary, manifest: Manifest) -> Row:
    """The loss of a program, as its backward passes begin at; scores are its own to tell.

    Of a program not every step is seen; the very first only starts the clock.
    """
    if summary.last_loss is None:
        return "loss", "not seen: no backward pass began at a single number"
    last = f"{summary.last_loss:.4g} in the last step{'' if tells_losses(manifest) else ' seen'}"
    return "loss", f"{last}, {summary.first_loss:.4g} in the first"
