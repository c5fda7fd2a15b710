"""Wall-clock times as logs print them, turned into nanoseconds; knows nothing of iterations."""

from __future__ import annotations

import datetime
import re

_NS = 1_000_000_000
DAY_NS = 86_400 * _NS

_DATED = re.compile(
    r"[\[(]?(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})[ T_]+(\d{1,2}):(\d{2}):(\d{2})(?:[.,:](\d{1,9}))?"
    r"(?: ?(Z|[+-]\d{2}:?\d{2})\b)?"
)
_GLOG = re.compile(r"[IWEF](\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?")
_TIME_ONLY = re.compile(r"[\[(]?(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?(?![\d:<])")
_UNIX = re.compile(r"[\[(]?(\d{10})(?:\.(\d{1,9}))?(?!\d)")


def find_stamp(line: str) -> tuple[int, bool] | None:
    """The time at the start of a line in nanoseconds, and whether it has no date; None if none.

    Only differences have a meaning: where no zone is printed, none is assumed.
    """
    line = line.lstrip()
    dated = _DATED.match(line)
    if dated:
        moment = _days_ns(int(dated[1]), int(dated[2]), int(dated[3]))
        within = _within_day_ns(dated[4], dated[5], dated[6], dated[7])
        if moment is None or within is None:
            return None
        return moment + within - _zone_ns(dated[8]), False
    glog = _GLOG.match(line)
    if glog:
        # glog prints no year; a leap year keeps the 29th of February.
        moment = _days_ns(2024, int(glog[1]), int(glog[2]))
        within = _within_day_ns(glog[3], glog[4], glog[5], glog[6])
        return None if moment is None or within is None else (moment + within, False)
    alone = _TIME_ONLY.match(line)
    if alone:
        within = _within_day_ns(alone[1], alone[2], alone[3], alone[4])
        return None if within is None else (within, True)
    unix = _UNIX.match(line)
    if unix:
        return int(unix[1]) * _NS + _fraction_ns(unix[2]), False
    return None


def _days_ns(year: int, month: int, day: int) -> int | None:
    try:
        return datetime.date(year, month, day).toordinal() * DAY_NS
    except ValueError:
        return None


def _within_day_ns(hour: str, minute: str, second: str, fraction: str | None) -> int | None:
    h, m, s = int(hour), int(minute), int(second)
    if h > 23 or m > 59 or s > 60:
        return None
    return (h * 3600 + m * 60 + s) * _NS + _fraction_ns(fraction)


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))


def _zone_ns(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60) * _NS
