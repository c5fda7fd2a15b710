"""Published studies run again here, and what became of their claims. Prints nothing.

from trainload.api.reproducing import reproduce

reproduce("load-analysis", quick=True).judged
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.api.analysing import collect_study
from trainload.api.loading import load
from trainload.api.studying import OUT, StudySession, run_study
from trainload.errors import TrainloadError, UsageError

if TYPE_CHECKING:
    from trainload.analyse.reproduce import Beside, ClaimFile, Evidence, Judged, Observed
    from trainload.analyse.study import TidyStudy

MONITOR_STUDY = "in-loop-monitor"
MONITOR = "nvidia-smi"
_OBSERVED = "load-analysis"
_TRACED = "per-layer"


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A published study beside what this machine measured."""

    file: ClaimFile
    quick: bool
    session: StudySession
    tables: tuple[Beside, ...]
    judged: tuple[Judged, ...]
    observed: Observed | None
    """The part of study L's own monitor; None for the other studies."""
    sessions: tuple[StudySession, ...]
    """Every study that was run, the observer's included."""

    @property
    def whole(self) -> bool:
        """Whether every study has been run to its end."""
        return all(one.result.ended_by == "finished" for one in self.sessions)

    def to_json(self) -> dict[str, Any]:
        """The document of `trainload reproduce --json`."""
        from trainload_worker.protocol.checked import to_json

        document: dict[str, Any] = to_json(
            {
                "study": self.file.study,
                "source": self.file.source,
                "quick": self.quick,
                "path": str(self.session.path),
                "ended_by": [one.result.ended_by for one in self.sessions],
                "tables": self.tables,
                "claims": self.judged,
                "observer": self.observed,
            }
        )
        return document


def reproduce(
    study: str,
    *,
    quick: bool = False,
    out: str | Path = OUT,
    show: Callable[[str], None] | None = None,
) -> Reproduction:
    """Run what is left of a shipped study, and judge the claims of its source by it.

    Of load-analysis the source's own monitor is measured too, where there is an nvidia-smi.
    Interrupted, it judges by what there is; called again it goes on. UsageError for a study whose
    source made no claims.
    """
    from trainload.analyse.reproduce import REPRODUCED, load_claims
    from trainload.analyse.rules import STUDY
    from trainload_worker.protocol.checked import suggest

    if study not in REPRODUCED:
        known = (*REPRODUCED, STUDY)
        raise UsageError(
            f"{study} cannot be reproduced{suggest(study, known)}; known: {', '.join(known)}"
        )
    file = load_claims(study)
    session = run_study(study, out=out, quick=quick, show=show)
    sessions, observed = [session], None
    if study == _OBSERVED:
        observed, watched = _observe(session, quick=quick, out=out, show=show)
        sessions += [] if watched is None else [watched]
    return judge(file, session, quick=quick, observed=observed, sessions=sessions)


def judge(
    file: ClaimFile,
    session: StudySession,
    *,
    quick: bool,
    observed: Observed | None,
    sessions: list[StudySession],
) -> Reproduction:
    """The tables and verdicts of a study that has been run."""
    from trainload.analyse.reproduce import judge_claims, side_by_side

    evidence = read_evidence(session.path, quick=quick, traced=file.study == _TRACED)
    return Reproduction(
        file=file,
        quick=quick,
        session=session,
        tables=tuple(side_by_side(file.study, evidence)),
        judged=tuple(judge_claims(file, evidence)),
        observed=observed,
        sessions=tuple(sessions),
    )


def read_evidence(folder: Path, *, quick: bool, traced: bool) -> Evidence:
    """The runs of a study's folder as claims look at them; with figures of layers if `traced`."""
    from trainload.analyse.reproduce import Evidence

    study = collect_study(folder)
    return Evidence(study=_with_layers(study, folder) if traced else study, quick=quick)


def _with_layers(study: TidyStudy, folder: Path) -> TidyStudy:
    """The study with a column for each figure of the layers of its traced runs."""
    import polars as pl

    from trainload.analyse.reproduce import layer_figures
    from trainload.study.ledger import RUNS

    rows: list[Mapping[str, Any]] = []
    for name in study.counted["run"]:
        try:
            layers = load(folder / RUNS / name).attribution
        except TrainloadError:
            layers = None  # its other figures count; a claim about layers then lacks this run
        rows.append({"run": name, **({} if layers is None else layer_figures(layers))})
    names = sorted({name for row in rows for name in row} - {"run"})
    schema: dict[str, Any] = {"run": pl.String, **dict.fromkeys(names, pl.Float64)}
    told = pl.DataFrame([{n: row.get(n) for n in schema} for row in rows], schema=schema)
    frame = study.frame.join(told, on="run", how="left", maintain_order="left")
    return replace(study, frame=frame, metrics=(*study.metrics, *names))


def _observe(
    session: StudySession,
    *,
    quick: bool,
    out: str | Path,
    show: Callable[[str], None] | None,
) -> tuple[Observed, StudySession | None]:
    from trainload.analyse.reproduce import Observed, observe

    if shutil.which(MONITOR) is None:
        return Observed(reason=f"this machine has no {MONITOR}"), None
    if session.result.ended_by != "finished":
        return Observed(reason=f"the study was {session.result.ended_by} before it"), None
    watched = run_study(MONITOR_STUDY, out=out, quick=quick, show=show)
    return observe(read_evidence(watched.path, quick=quick, traced=False)), watched
