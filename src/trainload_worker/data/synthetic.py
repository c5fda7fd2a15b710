"""Draws images and vectors that a network can learn, by seed alone; needs no library.

Each class has a pattern, and an example is its class's pattern under noise. Patterns are the same
for every run of a seed, so every framework trains on the same examples.
"""

from __future__ import annotations

import math
import random
from array import array

from trainload_worker.data.dataset import Dataset
from trainload_worker.data.tokens import draw_labelled_tokens, draw_stream
from trainload_worker.protocol.data import SyntheticData

_CELLS = 7
"""Patches of one colour along each side of an image's pattern."""
_PATTERN_TOP = 191
_NOISE_MASK = 0x3F
"""Brightest pattern and strongest noise: their sum is still a byte."""
_PATCH_SPREAD = 48
"""How far patches lie from their class's own colour, which even a deep network without batch norm
can tell after a few dozen steps."""

_NOISE_VALUES = 65_536
_PATTERN_SIZE = 0.5


def make_synthetic(spec: SyntheticData, seed: int) -> Dataset:
    """The examples that the specification asks for; the same for the same seed."""
    chance = random.Random(f"synthetic-{spec.form}-{seed}")
    if spec.form == "token_stream":
        return draw_stream(spec, chance)
    labels = draw_labels(spec.rows, spec.classes, chance)
    if spec.form == "tokens":
        return draw_labelled_tokens(spec, labels, chance)
    if spec.form == "images":
        return Dataset(
            features=_draw_images(spec, labels, chance, seed),
            labels=labels,
            groups=array("q", range(spec.rows)),
            feature_count=math.prod(spec.shape),
            classes=class_names(spec.classes),
            form="uint8",
        )
    return Dataset(
        features=_draw_vectors(spec, labels, chance, seed),
        labels=labels,
        groups=array("q", range(spec.rows)),
        feature_count=math.prod(spec.shape),
        classes=class_names(spec.classes),
    )


def class_names(count: int) -> tuple[str, ...]:
    """Names for classes that have only a number."""
    return tuple(map(str, range(count)))


def draw_labels(rows: int, classes: int, chance: random.Random) -> array[int]:
    """Classes as even as they can be, in random order."""
    labels = [row % classes for row in range(rows)]
    chance.shuffle(labels)
    return array("q", labels)


def _draw_images(
    spec: SyntheticData, labels: array[int], chance: random.Random, seed: int
) -> memoryview:
    """Bytes row after row.

    Pattern and noise of a whole image are added as one long number, byte beside byte, which takes
    microseconds; no byte overflows into its neighbour.
    """
    size = math.prod(spec.shape)
    mask = int.from_bytes(bytes([_NOISE_MASK]) * size, "little")
    images = bytearray(size * len(labels))
    # Class by class, so that one pattern is held at a time.
    for label, rows in enumerate(_rows_by_class(labels, spec.classes)):
        if not rows:
            continue
        pattern = int.from_bytes(_draw_pattern(spec.shape, f"image-{seed}-{label}"), "little")
        for row in rows:
            noise = chance.getrandbits(8 * size) & mask
            images[row * size : (row + 1) * size] = (pattern + noise).to_bytes(size, "little")
    return memoryview(images)


def _rows_by_class(labels: array[int], classes: int) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(classes)]
    for row, label in enumerate(labels):
        rows[label].append(row)
    return rows


def _draw_pattern(shape: tuple[int, ...], name: str) -> bytes:
    """Patches around a random brightness in each channel, in bytes up to _PATTERN_TOP."""
    chance = random.Random(name)
    channels, height, width = shape
    columns = [column * _CELLS // width for column in range(width)]
    planes: list[bytes] = []
    for _ in range(channels):
        own = chance.randrange(_PATTERN_TOP + 1)
        cells = [[_draw_patch(own, chance) for _ in range(_CELLS)] for _ in range(_CELLS)]
        lines = [bytes([line[column] for column in columns]) for line in cells]
        planes.extend(lines[row * _CELLS // height] for row in range(height))
    return b"".join(planes)


def _draw_patch(own: int, chance: random.Random) -> int:
    return min(max(own + chance.randint(-_PATCH_SPREAD, _PATCH_SPREAD), 0), _PATTERN_TOP)


def _draw_vectors(
    spec: SyntheticData, labels: array[int], chance: random.Random, seed: int
) -> array[float]:
    size = math.prod(spec.shape)
    noise = array("f", [chance.gauss(0.0, 1.0) for _ in range(_NOISE_VALUES + size)])
    patterns: dict[int, list[float]] = {}
    features = array("f")
    for label in labels:
        if label not in patterns:
            own = random.Random(f"vector-{seed}-{label}")
            patterns[label] = [own.gauss(0.0, _PATTERN_SIZE) for _ in range(size)]
        start = chance.randrange(_NOISE_VALUES)
        drawn = noise[start : start + size]
        features.extend([p + n for p, n in zip(patterns[label], drawn)])
    return features
