"""Measures what this machine reaches, keeps it, and holds study R's rules to it. Prints nothing.

from trainload.api.measuring import reproduce_rules

reproduce_rules(quick=True).judged
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.errors import HardwareFileError
from trainload.hardware import read_machine
from trainload.hardware.limits import (
    MachineLimits,
    limits_path,
    load_limits,
    save_limits,
    to_document,
)
from trainload.run import find_interpreter
from trainload.run.measuring import MeasureRequest, measure_machine
from trainload_worker.protocol.measure import LIMITS, PROGRAMS

if TYPE_CHECKING:
    from trainload.analyse.rules import JudgedRule, RuleFile

_LIMITS_S = 45.0
"""Within which the last program of `detect --measure` begins: it ends inside a minute."""

Show = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RulesReproduced:
    """Study R's rules beside what a machine's figures say of them."""

    file: RuleFile
    limits: MachineLimits
    path: Path
    """Where the figures stand."""
    judged: tuple[JudgedRule, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload reproduce hardware-recommendations --json`."""
        from trainload_worker.protocol.checked import to_json

        document: dict[str, Any] = to_json(
            {
                "study": self.file.study,
                "source": self.file.source,
                "quick": self.limits.quick,
                "path": str(self.path),
                "rules": self.judged,
            }
        )
        return {**document, "measured": to_document(self.limits)}


def measure_limits(
    *, out: str | Path | None = None, python: str | None = None, show: Show | None = None
) -> tuple[MachineLimits, Path]:
    """What this machine reaches at best, within a minute; kept in the user's folder or in `out`."""
    path = limits_path(read_machine()) if out is None else Path(out)
    limits = _measure(LIMITS, quick=True, limit_s=_LIMITS_S, python=python, show=show)
    save_limits(limits, path)
    return limits, path


def reproduce_rules(
    *,
    quick: bool = False,
    out: str | Path = "studies",
    measured: str | Path | None = None,
    python: str | None = None,
    show: Show | None = None,
) -> RulesReproduced:
    """Measure here, or take the file `measured`, and judge every rule of study R by it.

    `out` is the file of the figures, or the folder it is made in; written before any rule is
    judged, so that figures may be taken where the libraries that judge are missing.
    """
    if measured is not None:
        path = Path(measured)
        limits = load_limits(path)
    else:
        path = place_of(out, quick=quick)
        limits = _measure(PROGRAMS, quick=quick, limit_s=1200.0, python=python, show=show)
        save_limits(limits, path)
    return judge_limits(limits, path)


def judge_limits(limits: MachineLimits, path: Path) -> RulesReproduced:
    """The verdicts on a machine's figures."""
    from trainload.analyse.rules import judge_rules, load_rules

    file = load_rules()
    judged = tuple(judge_rules(file, limits))
    return RulesReproduced(file=file, limits=limits, path=path, judged=judged)


def place_of(out: str | Path, *, quick: bool) -> Path:
    """The file of the figures: `out` itself if it ends in .json, else one in that folder."""
    path = Path(out)
    if path.suffix == ".json":
        if path.is_dir():
            raise HardwareFileError(f"{path} is a folder; name a file")
        return path
    return path / f"hardware-recommendations{'-quick' if quick else ''}.json"


def _measure(
    programs: Sequence[str],
    *,
    quick: bool,
    limit_s: float,
    python: str | None,
    show: Show | None,
) -> MachineLimits:
    request = MeasureRequest(
        python=find_interpreter("torch", python), programs=programs, quick=quick, limit_s=limit_s
    )
    return measure_machine(request, show)
