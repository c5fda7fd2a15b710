"""Draws of one image a class from the same zone of sizes, with a running balance; pure.

After Zanchetta 2022, section 4.2 and figure 4.3. Its zones, from the mean X and the
deviation σ of the file sizes: A from X+σ to X+2σ, B from X to X+σ, C from X−σ to X, D from X−2σ
to X−σ, each with its lower end; what lies outside is drawn again. Its text adds draws of A and B
to the balance and subtracts those of C and D, while the figure adds X − size for C and D, which
is positive and could only grow: the text is followed here, so the balance is the sum of size − X.

Whole numbers throughout, and of the generator only `random()`, whose sequence Python promises to
keep: a seed gives the same subset on any machine.
"""

import math
import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

ZONES = ("A", "B", "C", "D")
_ABOVE, _BELOW = ("A", "B"), ("C", "D")

Sizes = Sequence[int]
Pools = Mapping[str, "array[int]"]
"""Numbers of one class's images in each zone."""


@dataclass(frozen=True, kw_only=True)
class SizeStatistics:
    """Sums over the sizes of all images that may be drawn."""

    count: int
    total_bytes: int
    squares: int

    @property
    def mean_bytes(self) -> float:
        """X of the zones."""
        return self.total_bytes / self.count

    @cached_property
    def variance(self) -> int:
        """Count squared times the variance, exactly."""
        return self.count * self.squares - self.total_bytes**2

    @property
    def deviation_bytes(self) -> float:
        """σ of the zones, the deviation of a whole population."""
        return math.sqrt(self.variance) / self.count

    def deviation(self, size_bytes: int) -> int:
        """Count times (size − X), exactly."""
        return self.count * size_bytes - self.total_bytes

    def zone(self, size_bytes: int) -> str | None:
        """The size's zone; None outside. All sizes alike, and so no zone with a width: B."""
        deviation = self.deviation(size_bytes)
        square, one = deviation**2, self.variance
        if deviation >= 0:
            if square < one or one == 0:
                return "B"
            return "A" if square < 4 * one else None
        if square <= one:
            return "C"
        return "D" if square <= 4 * one else None


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One image of every class, all of one zone."""

    zone: str
    images: "array[int]"
    """Number of the image in each class."""
    deviation: int
    """What it adds to the balance, times the count of the statistics."""


def measure_sizes(classes: Sequence[Sizes]) -> SizeStatistics:
    """The sums that mean and deviation come from."""
    return SizeStatistics(
        count=sum(len(sizes) for sizes in classes),
        total_bytes=sum(sum(sizes) for sizes in classes),
        squares=sum(sum(size * size for size in sizes) for sizes in classes),
    )


def sort_into_zones(classes: Sequence[Sizes], statistics: SizeStatistics) -> list[Pools]:
    """For each class the numbers of its images in each zone; those outside are in none."""
    result: list[Pools] = []
    for sizes in classes:
        pools = {zone: array("L") for zone in ZONES}
        for number, size in enumerate(sizes):
            zone = statistics.zone(size)
            if zone is not None:
                pools[zone].append(number)
        result.append(pools)
    return result


def draw_images(
    classes: Sequence[Sizes],
    statistics: SizeStatistics,
    zoned: Sequence[Pools],
    *,
    per_class: int | None,
    seed: int,
) -> list[Draw]:
    """Draws until every class has `per_class` images or the balance could no longer be kept.

    None draws as many as there can be. A positive balance allows zones C and D alone, a negative
    one A and B: it never exceeds what one draw can add. The last draw is the one nearest to
    bringing the balance to zero; those before it depend on the seed alone, not on `per_class`.
    """
    if per_class is None:
        per_class = len(_draw(classes, statistics, zoned, None, seed))
    return _draw(classes, statistics, zoned, per_class, seed)


def _draw(
    classes: Sequence[Sizes],
    statistics: SizeStatistics,
    zoned: Sequence[Pools],
    wanted: int | None,
    seed: int,
) -> list[Draw]:
    pools = [{zone: numbers[:] for zone, numbers in one.items()} for one in zoned]
    left = {zone: min(len(one[zone]) for one in pools) for zone in ZONES}
    chance = random.Random(f"subset-draws-{seed}")
    draws: list[Draw] = []
    balance = 0
    while wanted is None or len(draws) < wanted:
        zones = [zone for zone in _allowed(balance) if left[zone]]
        if not zones:
            break
        if wanted is not None and len(draws) == wanted - 1:
            closing = [_nearest(zone, classes, statistics, pools, balance) for zone in zones]
            draws.append(min(closing, key=lambda draw: abs(balance + draw.deviation)))
            break
        zone = _pick_zone(zones, left, chance)
        images = array("L", (_take(one[zone], chance) for one in pools))
        draw = _made(zone, images, classes, statistics)
        left[zone] -= 1
        balance += draw.deviation
        draws.append(draw)
    return draws


def _allowed(balance: int) -> Sequence[str]:
    if balance > 0:
        return _BELOW
    return _ABOVE if balance < 0 else ZONES


def _pick_zone(zones: Sequence[str], left: Mapping[str, int], chance: random.Random) -> str:
    """By how many draws each zone still has, as an image drawn from all of them would fall."""
    at = _below(sum(left[zone] for zone in zones), chance)
    for zone in zones:
        at -= left[zone]
        if at < 0:
            return zone
    raise AssertionError("the number drawn lies below the sum")


def _take(pool: "array[int]", chance: random.Random) -> int:
    """One number out of the pool, which keeps the others."""
    at = _below(len(pool), chance)
    taken, pool[at] = pool[at], pool[-1]
    pool.pop()
    return taken


def _below(end: int, chance: random.Random) -> int:
    return int(chance.random() * end)


def _made(
    zone: str, images: "array[int]", classes: Sequence[Sizes], statistics: SizeStatistics
) -> Draw:
    size = sum(sizes[number] for sizes, number in zip(classes, images, strict=True))
    deviation = statistics.count * size - len(classes) * statistics.total_bytes
    return Draw(zone=zone, images=images, deviation=deviation)


def _nearest(
    zone: str,
    classes: Sequence[Sizes],
    statistics: SizeStatistics,
    pools: Sequence[Pools],
    balance: int,
) -> Draw:
    """Of each class the image that takes its share of the balance away most nearly."""
    images = array("L")
    for position, (sizes, pool) in enumerate(zip(classes, pools, strict=True)):
        share = len(classes) - position
        number = min(
            (abs(balance + share * statistics.deviation(sizes[number])), number)
            for number in pool[zone]
        )[1]
        images.append(number)
        balance += statistics.deviation(sizes[number])
    return _made(zone, images, classes, statistics)


def hold_out(draws: Sequence[Draw], fraction: float, seed: int) -> frozenset[int]:
    """Numbers of the draws kept for validation, balanced by the same rule as long as it can be.

    Whole draws, so that every class and zone is as frequent in both parts. At least one draw on
    each side where there are two and the fraction is above 0.
    """
    wanted = round(len(draws) * fraction)
    if fraction > 0 and len(draws) > 1:
        wanted = min(max(wanted, 1), len(draws) - 1)
    pools = {zone: array("L") for zone in ZONES}
    for number, draw in enumerate(draws):
        pools[draw.zone].append(number)
    chance = random.Random(f"subset-validation-{seed}")
    balance = 0
    held: set[int] = set()
    while len(held) < wanted:
        left = {zone: len(pool) for zone, pool in pools.items()}
        zones = [zone for zone in _allowed(balance) if left[zone]] or ZONES
        if len(held) == wanted - 1:
            rest = [number for zone in zones for number in pools[zone]]
            number = min(rest, key=lambda n: (abs(balance + draws[n].deviation), n))
        else:
            number = _take(pools[_pick_zone(zones, left, chance)], chance)
        held.add(number)
        balance += draws[number].deviation
    return frozenset(held)


def draw_names(names: Sequence[str], seed: int) -> list[str]:
    """The names in an order drawn by the seed."""
    chance = random.Random(f"subset-classes-{seed}")
    rest = list(names)
    return [rest.pop(_below(len(rest), chance)) for _ in names]
