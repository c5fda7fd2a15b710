"""A balanced subset of an image folder: which classes, which images, and how well they balance.

Reads the folder through `subset.scan` and draws by `subset.draw`; writes nothing.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.checked import suggest
from trainload.errors import UsageError, WorkloadError
from trainload.workload.subset.draw import (
    ZONES,
    Draw,
    Pools,
    SizeStatistics,
    draw_images,
    draw_names,
    hold_out,
    measure_sizes,
    sort_into_zones,
)
from trainload.workload.subset.scan import ImageClass, Progress, Scanner, Skipped, list_classes

TRAIN, VALIDATION = "train", "val"


@dataclass(frozen=True, kw_only=True)
class SubsetRequest:
    """What to choose: a number of classes or their names (neither: all), and how many images."""

    folder: Path
    class_count: int | None = None
    class_names: tuple[str, ...] = ()
    per_class: int | None = None
    """Images of each class, training and validation together; None: as many as possible."""
    validation_fraction: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.class_count is not None and self.class_names:
            raise UsageError("--classes draws classes and --class names them; give one of the two")
        twice = {name for name in self.class_names if self.class_names.count(name) > 1}
        if twice:
            raise UsageError(f"--class {min(twice)} is given twice; keep one")
        if not 0 <= self.validation_fraction < 1:
            raise UsageError(
                f"--validation-fraction {self.validation_fraction:g}: give 0 or more and below 1"
            )


@dataclass(frozen=True, kw_only=True)
class Subset:
    """What was chosen, and all that it was chosen from."""

    request: SubsetRequest
    classes: tuple[ImageClass, ...]
    statistics: SizeStatistics
    zoned: Sequence[Pools]
    draws: Sequence[Draw]
    held_out: frozenset[int]
    skipped: Skipped
    seen: int
    notes: tuple[str, ...]

    @property
    def per_class(self) -> int:
        """Images of each class, training and validation together."""
        return len(self.draws)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The manifest: one image after the other, by draw and then by class.

        `path` is relative to the folder; bytes that are no UTF-8 stand in it as os.fsdecode has it.
        """
        chosen = [self._chosen_names(one.paths(), label) for label, one in enumerate(self.classes)]
        for number, draw in enumerate(self.draws):
            split = VALIDATION if number in self.held_out else TRAIN
            for label, (one, image) in enumerate(zip(self.classes, draw.images, strict=True)):
                yield {
                    "path": f"{one.name}/{os.fsdecode(chosen[label][number])}",
                    "class": one.name,
                    "label": label,
                    "zone": draw.zone,
                    "bytes": one.sizes[image],
                    "split": split,
                    "draw": number,
                }

    def _chosen_names(self, paths: Sequence[bytes], label: int) -> list[bytes]:
        return [paths[draw.images[label]] for draw in self.draws]


def choose_subset(request: SubsetRequest, progress: Progress | None = None) -> Subset:
    """Read the folder and draw; WorkloadError says how many images there can be if too few."""
    scanner = Scanner(request.folder, progress)
    classes, notes = _read_classes(request, scanner)
    sizes = [one.sizes for one in classes]
    statistics = measure_sizes(sizes)
    zoned = sort_into_zones(sizes, statistics)
    draws = draw_images(sizes, statistics, zoned, per_class=request.per_class, seed=request.seed)
    if not draws or (request.per_class is not None and len(draws) < request.per_class):
        raise WorkloadError(_shortage(request, classes, zoned, draws))
    held_out = hold_out(draws, request.validation_fraction, request.seed)
    if statistics.variance == 0:
        notes.append(
            f"all {statistics.count:,} images have the same size, {sizes[0][0]:,} bytes: "
            "the zones have no width, all are counted as zone B, and any draw is balanced"
        )
    if len(classes) == 1:
        notes.append("one class: there are no others to balance it with, only large with small")
    if len(draws) == 1 and request.validation_fraction > 0:
        notes.append("one image a class: all are for training, none for validation")
    return Subset(
        request=request,
        classes=tuple(classes),
        statistics=statistics,
        zoned=zoned,
        draws=draws,
        held_out=held_out,
        skipped=scanner.skipped,
        seen=scanner.seen,
        notes=tuple(notes),
    )


def _read_classes(request: SubsetRequest, scanner: Scanner) -> tuple[list[ImageClass], list[str]]:
    """The chosen classes with their images, by name; a drawn class without images is redrawn."""
    known = list_classes(request.folder)
    for name in request.class_names:
        if name not in known:
            raise WorkloadError(f"no class {name!r} in {request.folder}{_hint(name, known)}")
    wanted = request.class_count
    if wanted is not None and wanted > len(known):
        raise WorkloadError(
            f"{request.folder} holds {len(known)} classes, not {wanted}; ask for fewer --classes"
        )
    order = request.class_names or (known if wanted is None else draw_names(known, request.seed))
    classes: list[ImageClass] = []
    empty: list[str] = []
    for name in order:
        if len(classes) == wanted:
            break
        skipped_before = scanner.skipped.counts.total()
        one = scanner.read_class(name)
        if one.sizes:
            classes.append(one)
        elif request.class_names:
            others = scanner.skipped.counts.total() - skipped_before
            raise WorkloadError(
                f"class {name!r} in {request.folder} holds no images"
                f"{f', only {others:,} files that are none' if others else ''}; leave it out"
            )
        else:
            empty.append(name)
    if not classes or (wanted is not None and len(classes) < wanted):
        raise WorkloadError(
            f"{len(classes)} of the {len(known)} classes in {request.folder} hold images"
            f"{_skips(scanner.skipped)}; ask for no more --classes than that"
            if classes
            else f"no class in {request.folder} holds an image{_skips(scanner.skipped)}; "
            "give one that holds a folder of images a class"
        )
    notes = []
    if empty:
        names = ", ".join(map(repr, empty[:5])) + (", …" if len(empty) > 5 else "")
        notes.append(f"left out, holding no images: {len(empty)} class folders ({names})")
    position = {name: number for number, name in enumerate(known)}
    classes.sort(key=lambda one: position[one.name])
    return classes, notes


def _hint(name: str, known: Sequence[str]) -> str:
    # All names of a thousand classes are no hint.
    hint = suggest(name, known)
    return hint if len(known) <= 10 or "did you mean" in hint else f"; it holds {len(known)} others"


def _skips(skipped: Skipped) -> str:
    if not skipped.counts:
        return ""
    counts = ", ".join(f"{count:,} {reason}" for reason, count in skipped.counts.most_common(3))
    return f" (skipped: {counts}, as {skipped.listed[0][0]!r})"


def _shortage(
    request: SubsetRequest,
    classes: Sequence[ImageClass],
    zoned: Sequence[Pools],
    draws: Sequence[Draw],
) -> str:
    """Why there are no more draws: which zones have run out in which classes."""
    balance = sum(draw.deviation for draw in draws)
    needed = ZONES if not balance else ZONES[2:] if balance > 0 else ZONES[:2]
    reasons = []
    for zone in needed:
        counts = [len(pools[zone]) for pools in zoned]
        least = min(counts)
        reasons.append(f"{zone} has {least} in class {classes[counts.index(least)].name!r}")
    ends = ", ".join(reasons)
    if not draws:
        return (
            f"no zone of file sizes holds an image of every class in {request.folder}: "
            f"zone {ends}; choose classes whose files are of like sizes with --class"
        )
    side = "" if not balance else " smaller" if balance > 0 else " larger"
    return (
        f"{len(draws)} images a class are possible with seed {request.seed}, not "
        f"{request.per_class}: then a{side} image of every class is needed, and zone {ends}; "
        f"ask for --per-class {len(draws)} or fewer, or for other classes"
    )
