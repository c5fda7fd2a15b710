"""What each of several ranks is given: its environment, its work, its share of the setting.

Starts nothing; that is the launcher's.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Mapping

from trainload_worker.protocol.spec import (
    LaunchSpec,
    RankSpec,
    ScriptSpec,
    SettingSpec,
    TrainSpec,
)

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def rank_environment(
    base: Mapping[str, str], rank: int, count: int, port: int, threads: int | None
) -> dict[str, str]:
    """The variables that torchrun gives a rank on one machine, and its share of the threads.

    Those of another launcher around this one are not handed down: they speak of its own ranks.
    """
    kept = {k: v for k, v in base.items() if not k.startswith("TORCHELASTIC_")}
    share = {} if threads is None else dict.fromkeys(_THREADS, str(max(1, threads // count)))
    return {
        **kept,
        **share,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": base.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
        "TORCHELASTIC_RUN_ID": f"trainload-{os.getpid()}",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        # The first rank keeps the store: there is no agent that would.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def rank_spec(spec: LaunchSpec, rank: int) -> ScriptSpec | TrainSpec:
    """The specification of one rank.

    A script takes what it likes of the setting. A graph's ranks divide it, and the first one alone
    leaves checkpoints: the others have the same weights.
    """
    files, work = spec.ranks[rank], spec.work
    layers = work.layers
    if layers is not None:
        layers = replace(layers, file_form=files.window_form, leads=rank == 0)
    own = replace(work, events_path=files.events_path, parent_pid=os.getpid(), layers=layers)
    if isinstance(own, ScriptSpec):
        return replace(own, rank=rank)
    place = RankSpec(rank, len(spec.ranks))
    setting = share_setting(own.setting, place)
    return replace(own, rank=place, setting=setting, save=None if rank else own.save)


def share_setting(setting: SettingSpec, rank: RankSpec) -> SettingSpec:
    """A rank's own cores, threads and accelerator; who asked has seen that there are enough."""
    cores, threads = setting.cores, setting.threads
    return SettingSpec(
        cores=None if cores is None else cores[rank.share(len(cores))],
        threads=None if threads is None else max(1, threads // rank.count),
        accelerators=setting.accelerators[rank.number : rank.number + 1],
    )
