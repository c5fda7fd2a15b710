"""Whether a claim holds here: every comparison with its interval, and a verdict from them.

A comparison decides where its interval lies wholly inside or wholly outside what is claimed. The
intervals of one claim hold together at 95 % (Bonferroni); each claim is a question of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from trainload.analyse.reproduce.claims import Claim, ClaimFile
from trainload.analyse.reproduce.evidence import Evidence
from trainload.analyse.reproduce.readings import Reading, read_change, read_value, read_within
from trainload.analyse.study.contrasts import require_scipy
from trainload.analyse.study.effects import CHANCE

Verdict = Literal["confirms", "contradicts", "cannot tell"]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One comparison of a claim."""

    title: str
    short: str
    """What tells it from the other comparisons of its claim; empty where it is the only one."""
    reading: Reading
    holds: bool | None
    """None where the interval does not decide."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One claim with what was measured of it."""

    claim: Claim
    verdict: Verdict
    reason: str
    compared: tuple[Compared, ...]


def judge_claims(file: ClaimFile, evidence: Evidence) -> list[Judged]:
    """Every claim of a file in its order."""
    require_scipy()
    return [judge_claim(claim, evidence, file.quick) for claim in file.claims]


def judge_claim(claim: Claim, evidence: Evidence, too_short: str) -> Judged:
    """One claim; `too_short` says why the quick form cannot decide what needs the whole one."""
    pairs = list(claim.pairs())
    chance = CHANCE / len(pairs)
    compared = tuple(_compare(claim, evidence, *pair, chance) for pair in pairs)
    barred = claim.barred
    if barred is None and claim.gpu and not evidence.gpu:
        barred = "it is about training on a GPU, and none was used here"
    elif barred is None and claim.whole and evidence.quick:
        barred = f"the quick form is too short to say: {too_short}"
    if barred is not None:
        return Judged(claim=claim, verdict="cannot tell", reason=barred, compared=compared)
    verdict = _verdict([one.holds for one in compared], claim.need)
    return Judged(
        claim=claim, verdict=verdict, reason=_reason(compared, verdict), compared=compared
    )


def _verdict(holds: Sequence[bool | None], need: int | None) -> Verdict:
    """Certain even if every open comparison went the other way."""
    wanted = len(holds) if need is None else need
    if sum(one is True for one in holds) >= wanted:
        return "confirms"
    if sum(one is not False for one in holds) < wanted:
        return "contradicts"
    return "cannot tell"


def _reason(compared: Sequence[Compared], verdict: Verdict) -> str:
    holds = sum(one.holds is True for one in compared)
    fails = sum(one.holds is False for one in compared)
    of = f"of {len(compared)} comparisons" if len(compared) > 1 else "the comparison"
    if verdict != "cannot tell":
        if len(compared) == 1:
            return "the interval decides"
        return f"{of}: {holds} as claimed, {fails} not, {len(compared) - holds - fails} open"
    silent = [one.reading.reason for one in compared if one.reading.reason is not None]
    if len(silent) == len(compared):
        return silent[0]
    open_ones = len(compared) - holds - fails
    if len(compared) == 1:
        return "the interval does not decide"
    said = f"; {silent[0]}" if silent else ""
    return f"{of}: {holds} as claimed, {fails} not, {open_ones} open{said}"


def _compare(
    claim: Claim,
    evidence: Evidence,
    one: Mapping[str, str],
    other: Mapping[str, str],
    chance: float,
) -> Compared:
    if claim.scale == "value":
        reading = read_value(evidence, one, claim.metric, chance)
    elif claim.against_metric is not None:
        reading = read_within(evidence, one, claim.metric, claim.against_metric, chance)
    else:
        ratio = claim.scale == "ratio"
        reading = read_change(evidence, one, other, claim.metric, chance, ratio=ratio)
    return Compared(
        title=_title(claim, one, other),
        short=_short(claim, one, other),
        reading=reading,
        holds=_holds(claim, reading),
    )


def _holds(claim: Claim, reading: Reading) -> bool | None:
    if reading.low is None or reading.high is None:
        return None
    least = -math.inf if claim.above is None else claim.above
    most = math.inf if claim.below is None else claim.below
    if reading.low > least and reading.high < most:
        return True
    return False if reading.high <= least or reading.low >= most else None


def _title(claim: Claim, one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """`model=vgg16 framework=torch against framework=mxnet`; the metrics where those differ."""
    said = " ".join(f"{name}={level}" for name, level in one.items())
    if claim.against_metric is not None:
        return f"{said}: {claim.metric} against {claim.against_metric}".strip(": ")
    changed = {name: level for name, level in other.items() if one.get(name) != level}
    beside = " ".join(f"{name}={level}" for name, level in changed.items())
    return f"{said} against {beside}" if beside else said


def _short(claim: Claim, one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """`vgg16 all`, or `against 3` where only the other side varies."""
    sides = (({**claim.each, **claim.of}, one), (claim.against, other))
    words = [
        " ".join(levels[name] for name, choice in varied.items() if len(choice) > 1)
        for varied, levels in sides
    ]
    if words[1]:
        words[1] = f"against {words[1]}"
    return " ".join(filter(None, words))
