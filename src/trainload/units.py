"""Units of quantities and how they are written for people; imports nothing of ours.

Every quantity carries its unit as a suffix of its name: `step_s`, `power_w`, `peak_bytes`.
`unit_of` reads that suffix back; `render_` functions turn a value into text.
"""

_SUFFIX_UNITS = {
    "_bytes_per_s": "bytes/s",
    "_flop_per_s": "FLOP/s",
    "_per_s": "1/s",
    "_fraction": "fraction",
    "_celsius": "°C",
    "_bytes": "bytes",
    "_count": "count",
    "_flop": "FLOP",
    "_bits": "bits",
    "_hz": "Hz",
    "_s": "s",
    "_w": "W",
    "_j": "J",
    "_v": "V",
    "_a": "A",
}

MISSING = "–"
"""What a missing value looks like to a person: never 0."""


def unit_of(name: str) -> str | None:
    """The unit a quantity's name carries; None where the name carries none."""
    for suffix, unit in _SUFFIX_UNITS.items():
        if name.endswith(suffix):
            return unit
    return None


def render_seconds(value_s: float | None) -> str:
    """A duration for people, from nanoseconds to days; a dash when missing."""
    if value_s is None:
        return MISSING
    magnitude = abs(value_s)
    if magnitude == 0:
        return "0 s"
    if magnitude < 1e-6:
        return f"{value_s * 1e9:.3g} ns"
    if magnitude < 1e-3:
        return f"{value_s * 1e6:.3g} µs"
    if magnitude < 1:
        return f"{value_s * 1e3:.3g} ms"
    if magnitude < 60:
        return f"{value_s:.3g} s"
    sign = "-" if value_s < 0 else ""
    seconds = round(magnitude)
    if seconds < 3600:
        return f"{sign}{seconds // 60} min {seconds % 60:02d} s"
    if seconds < 86400:
        return f"{sign}{seconds // 3600} h {seconds % 3600 // 60:02d} min"
    return f"{sign}{seconds // 86400} d {seconds % 86400 // 3600:02d} h"


def render_bytes(value_bytes: float | None) -> str:
    """An amount of memory in binary units; a dash when missing."""
    if value_bytes is None:
        return MISSING
    value = float(value_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            # Three figures, but 1,000 to 1,023 of a unit are four.
            whole = unit == "bytes" or abs(value) >= 999.5
            return f"{value:.0f} {unit}" if whole else f"{value:.3g} {unit}"
        value /= 1024
    raise AssertionError("the loop returns at the last unit")


def render_flop(value_flop: float | None) -> str:
    """A number of floating-point operations in decimal units; a dash when missing."""
    if value_flop is None:
        return MISSING
    for factor, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value_flop) >= factor:
            return f"{value_flop / factor:.4g} {unit}FLOP"
    return f"{value_flop:.0f} FLOP"


def render_percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as a percentage; a dash when missing."""
    return MISSING if fraction is None else f"{fraction * 100:.{digits}f} %"


def render_value(name: str, value: float | None) -> str:
    """A quantity by its name's unit: `render_value("step_s", 0.0012)` gives '1.2 ms'."""
    if value is None:
        return MISSING
    unit = unit_of(name)
    if unit == "s":
        return render_seconds(value)
    if unit == "bytes":
        return render_bytes(value)
    if unit == "fraction":
        return render_percent(value)
    if unit == "Hz" and abs(value) >= 1e6:
        return f"{value / 1e6:.4g} MHz"
    return f"{value:.4g} {unit}" if unit else f"{value:.4g}"
