"""What past runs of a training on this machine tell of suggestions; reads figures alone.

Only completed runs of the same model on a machine like this one count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainload.api.recommending.levels import choose_metric, compare_levels
from trainload.errors import SettingError, TrainloadError
from trainload.hardware.inventory import Machine
from trainload.hardware.limits import limits_path
from trainload.hardware.settings import parse_setting, resolve_setting
from trainload.recommend.here import PastRun, Suggestion, apply_past

if TYPE_CHECKING:
    from trainload.analyse.study import Measured, TidyStudy

_WORDS = ("all", "half", "one", "big", "little")
_LENGTHS = ("epochs", "max_steps", "validate", "rows", "data.rows")
"""Facts that change how long a run is, not how long a step takes."""
_APART = ("threads", "setting", "precision", "batch_size", "loader", "loader_workers", "model")


class PastRuns:
    """The runs of one training below a folder, looked at when they are first asked for."""

    def __init__(
        self,
        folder: Path | None,
        machine: Machine,
        *,
        title: str,
        run: Path | None,
        batch_size: int | None,
    ) -> None:
        self._folder, self._machine = folder, machine
        self._title, self._run, self._batch = title, run, batch_size

    @cached_property
    def newest(self) -> PastRun | None:
        """The run that was named, or the newest of this training with this batch."""
        if self._run is not None:
            return _waits(self._run)
        mine = [
            (figures.created or "", path)
            for path, one in self._runs
            if (figures := one.figures) is not None
            and self._batch in (None, figures.facts.get("batch_size"))
        ]
        return _waits(max(mine)[1]) if mine else None

    def tell(self, suggestion: Suggestion) -> Suggestion:
        """The suggestion with the gain that past runs show; as it was where they show none."""
        trial, tidy = suggestion.trial, self._tidy
        if trial is None or tidy is None or trial.factor not in tidy.factors:
            return suggestion
        metric = choose_metric(tidy)
        found = None if metric is None else compare_levels(tidy, trial, metric)
        return suggestion if found is None else apply_past(suggestion, found, str(self._folder))

    @cached_property
    def _runs(self) -> list[tuple[Path, Measured]]:
        if self._folder is None or not self._folder.is_dir():
            return []
        from trainload.api.analysing import measured_runs
        from trainload.record import load_manifest

        like = limits_path(self._machine)
        found = []
        for path, one in measured_runs(self._folder, keep=False):
            if one.figures is None or one.reason or one.figures.facts.get("model") != self._title:
                continue
            try:
                machine = load_manifest(path).machine
            except TrainloadError:
                continue  # damaged since its figures were kept: it tells nothing
            if machine is not None and limits_path(machine) == like:
                found.append((path, one))
        return found

    @cached_property
    def _tidy(self) -> TidyStudy | None:
        """What differs between them under the names that trials use; None without two runs."""
        from trainload.analyse.study import tidy_study

        runs = [
            replace(one, figures=replace(one.figures, factors={}, facts=self._levels(one)))
            for _, one in self._runs
            if one.figures is not None
        ]
        return tidy_study(runs) if len(runs) > 1 else None

    def _levels(self, one: Measured) -> dict[str, Any]:
        assert one.figures is not None, "left out before"
        facts = one.figures.facts
        loader = facts.get("loader")
        workers = facts.get("loader_workers")
        if loader == "native":
            loader = f"native, {workers} worker{'' if workers == 1 else 's'}"
        rest = {name: value for name, value in facts.items() if name not in (*_APART, *_LENGTHS)}
        return {
            "threads": self._threads(facts),
            "setting": self._word(facts.get("setting")),
            "precision": facts.get("precision"),
            "batch_size": str(facts.get("batch_size")),
            "loader": loader,
            "beside": json.dumps(rest, sort_keys=True, default=str),
        }

    def _threads(self, facts: Mapping[str, Any]) -> str:
        """Threads of a run; those of this machine where it had one for each of its cores.

        A run on fewer cores then differs from one on all by its setting alone, as in a trial.
        """
        named = facts.get("threads")
        try:
            cores = len(parse_setting(str(facts.get("setting")))[0])
        except SettingError:
            return str(named)
        whole = resolve_setting(None, None, self._machine).threads
        return str(whole if named in (None, cores) else named)

    def _word(self, setting: Any) -> str:
        """`all`, `half` … for the setting of a run; itself where no word means it."""
        cores = str(setting).partition("+")[0]
        for word in _WORDS:
            try:
                if resolve_setting(word, None, self._machine).text == cores:
                    return word
            except SettingError:
                continue  # this machine has no such cores
        return str(setting)


def _waits(path: Path) -> PastRun:
    from trainload.analyse.attribution.machine import find_machine
    from trainload.api.loading import load

    run = load(path)
    summary = run.summary
    circumstances = find_machine(run)
    wait = summary.input_wait_s
    whole = summary.training_s
    return PastRun(
        name=path.name,
        wait_fraction=min(wait / whole, 1.0) if wait is not None and whole > 0 else None,
        quota_fraction=circumstances.quota_fraction,
        swapped_bytes=circumstances.swapped_bytes,
        paging_fraction=circumstances.kernel_fraction,
        paging_read="run_page_faults_count" in summary.counters,
    )
