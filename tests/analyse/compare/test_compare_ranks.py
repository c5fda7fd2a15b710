"""The processes of one run: skew of their ends, who waits, the slow one."""

import polars as pl
import pytest

from trainload.analyse.attribution.types import RankLayers, WindowCost, row_schema
from trainload.analyse.compare.ranks import compare_ranks

COUNT = 30


def steps(late_s=0.0):
    start = [float(n) for n in range(COUNT)]
    end = [s + 0.9 + late_s for s in start]
    return pl.DataFrame(
        {"step": range(1, COUNT + 1), "start_s": start, "end_s": end, "step_s": [0.9] * COUNT}
    )


def traced(rank, own_s, talk_s, jitter=0.001):
    rows = []
    for step in range(1, 7):
        times = {"layer": own_s + jitter * (step % 3), "communication": talk_s}
        rows += [
            {"rank": rank, "window": 0, "step": step, "kind": kind, "time_s": t, "traced_s": t}
            for kind, t in times.items()
        ]
    frame = pl.DataFrame([{name: row.get(name) for name in row_schema()} for row in rows],
                         schema=row_schema())  # fmt: skip
    return RankLayers(
        rank=rank, device="cpu", step_s=own_s + talk_s, traced_step_s=own_s + talk_s,
        corrected=True, explained_fraction=1.0, parts={"forward": own_s, "communication": talk_s},
        hidden_communication_s=0.0, busy_s=own_s, nodes=(), rows=frame,
        cost=WindowCost(windows=1, cost_s=0.0, fraction=None, budget=None), notes=(),
    )  # fmt: skip


def test_the_slow_rank_is_named_with_what_the_others_wait():
    layers = [traced(0, 0.5, 0.4), traced(1, 0.8, 0.1, jitter=0.003), traced(2, 0.5, 0.4)]
    places = {1: "cuda:1, cores 2-3"}
    found = compare_ranks(
        "r", {0: steps(), 1: steps(0.05), 2: steps()}, places, layers, margin=0.03
    )
    assert found.slow == 1 and found.waited_s == pytest.approx(0.3)
    assert found.skew_s == pytest.approx(0.05)
    slow = found.rows[1]
    assert slow.verdict == "slow" and slow.behind_s == pytest.approx(0.3, abs=0.01)
    assert slow.last_fraction == 1.0 and slow.late_s == pytest.approx(0.05)
    assert slow.place == places[1] and slow.wait_s == 0
    assert {row.verdict for row in found.rows if row.rank != 1} == {"even"}


def test_ranks_alike_name_nobody():
    layers = [traced(rank, 0.5 + 0.001 * rank, 0.1, jitter=0.01) for rank in range(3)]
    found = compare_ranks("r", {rank: steps() for rank in range(3)}, {}, layers, margin=0.03)
    assert found.slow is None and found.waited_s is None


def test_without_traces_only_the_ends_are_known():
    found = compare_ranks("r", {0: steps(), 1: steps(0.1)}, {}, (), margin=0.03)
    assert found.slow is None and found.rows[0].own_s is None
    assert found.rows[1].late_s == pytest.approx(0.1)
    assert found.skew_fraction == pytest.approx(0.1 / 0.9)
    assert any("run with --layers" in note for note in found.notes)
