"""Generates pose frames grouped into videos, by seed alone; reads no file and needs no library.

Each row is one frame: 25 joints × (x, y, confidence), coordinates about zero with the body some
two units tall, confidence in [0, 1], and 0, 0, 0 for a joint that is occluded. A video shows one
performer doing one skill, framed by NONE frames in which the body goes from the neutral stance to
the skill and back. Performers differ in size, place, tilt, side, proportions and in how they do
the skill, so a model has to learn the skill and not the performer; skills come in similar pairs.

A frame is a sum of four vectors of its video (stance, hold, and two that swing with the phase of
the movement) plus a slice of one table of noise: a few operations a number keep 100,000 frames
within seconds without any library.
"""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import dataclass
from typing import List, Mapping, Tuple

from trainload_worker.data.dataset import Dataset
from trainload_worker.errors import DataError

REST = "NONE"
"""The class of frames that show no skill."""

JOINT_COUNT = 25
FEATURE_COUNT = 3 * JOINT_COUNT

_FRAMES_PER_VIDEO = 160
_VIDEOS_PER_CLASS = 8
_PERIOD_FRAMES = 40.0
_RAMP_FRAMES = 24
_NOISE_ROWS = 2003

# Sizes of the deformations in body units, chosen so that a perceptron of three layers of 512 units
# reaches about 0.8 on videos it has not seen after ten epochs, and more on those it has.
_SKILL_SIZE = 0.12
_PAIR_SIZE = 0.22
_SWING_SIZE = 0.10
_HABIT_SIZE = 0.28
_PROPORTION_SIZE = 0.08
_JITTER_SIZE = 0.12
_OCCLUDED_FRACTION = 0.08
_OCCLUSION_FRAMES = 12

# The 25 joints in the order of the OpenPose BODY_25 model, standing, x to the right and y up.
_STANCE: tuple[tuple[float, float], ...] = (
    (0.0, 0.92),
    (0.0, 0.70),
    (-0.20, 0.68),
    (-0.30, 0.40),
    (-0.32, 0.12),
    (0.20, 0.68),
    (0.30, 0.40),
    (0.32, 0.12),
    (0.0, 0.08),
    (-0.12, 0.06),
    (-0.14, -0.42),
    (-0.15, -0.88),
    (0.12, 0.06),
    (0.14, -0.42),
    (0.15, -0.88),
    (-0.04, 0.96),
    (0.04, 0.96),
    (-0.09, 0.93),
    (0.09, 0.93),
    (0.20, -0.96),
    (0.17, -0.97),
    (0.14, -0.92),
    (-0.20, -0.96),
    (-0.17, -0.97),
    (-0.14, -0.92),
)
_MIRROR = (0, 1, 5, 6, 7, 2, 3, 4, 8, 12, 13, 14, 9, 10, 11, 16, 15, 18, 17, 22, 23, 24, 19, 20, 21)

_Points = List[Tuple[float, float]]


@dataclass(frozen=True)
class _Skill:
    hold: _Points
    swing_cos: _Points
    swing_sin: _Points


@dataclass(frozen=True)
class _Video:
    """Frames of one video: `head` and `tail` are NONE, `body` shows the class."""

    label: int
    head: int
    body: int
    tail: int


def make_keypoints(
    class_counts: Mapping[str, int], seed: int, feature_count: int = FEATURE_COUNT
) -> Dataset:
    """A data set with exactly `class_counts` frames of each class; groups are the videos."""
    if feature_count != FEATURE_COUNT:
        raise DataError(f"keypoints have {FEATURE_COUNT} features, not {feature_count}")
    classes = tuple(class_counts)
    chance = random.Random(f"keypoints-{seed}")
    skills = [_draw_skill(index) for index in range(len(classes))]
    rest = classes.index(REST) if REST in classes else None
    noise = _draw_noise(chance)
    features, labels, groups = array("f"), array("q"), array("q")
    for group, video in enumerate(_plan_videos(class_counts, rest, chance)):
        features.extend(_film(video, skills[video.label], noise, chance))
        if rest is not None:
            labels.extend([rest] * video.head)
        labels.extend([video.label] * video.body)
        if rest is not None:
            labels.extend([rest] * video.tail)
        groups.extend([group] * (video.head + video.body + video.tail))
    return Dataset(
        features=features,
        labels=labels,
        groups=groups,
        feature_count=FEATURE_COUNT,
        classes=classes,
    )


def _plan_videos(
    class_counts: Mapping[str, int], rest: int | None, chance: random.Random
) -> list[_Video]:
    """How many frames each video has of what, in random order, counts exact."""
    bodies: list[tuple[int, int]] = []
    for label, count in enumerate(class_counts.values()):
        if label != rest:
            bodies.extend((label, frames) for frames in _cut(count, chance))
    chance.shuffle(bodies)
    if rest is None:
        return [_Video(label, 0, frames, 0) for label, frames in bodies]
    rest_count = class_counts[REST]
    if not bodies:
        return [_Video(rest, 0, frames, 0) for frames in _cut(rest_count, chance)]
    videos = []
    given = body_frames = 0
    all_frames = sum(frames for _, frames in bodies)
    for label, frames in bodies:
        # Shares follow the running total, so that they add up to the count exactly.
        body_frames += frames
        share = rest_count * body_frames // all_frames - given
        given += share
        head = round(share * chance.uniform(0.3, 0.7))
        videos.append(_Video(label, head, frames, share - head))
    return videos


def _cut(count: int, chance: random.Random) -> list[int]:
    """Parts of uneven length that add up to `count`."""
    if count == 0:
        return []
    parts = max(count // _FRAMES_PER_VIDEO, min(_VIDEOS_PER_CLASS, count))
    weights = [chance.uniform(0.5, 1.5) for _ in range(parts)]
    spare, total = count - parts, sum(weights)
    lengths = []
    given = 0
    running = 0.0
    for weight in weights[:-1]:
        running += weight
        share = int(spare * running / total) - given
        given += share
        lengths.append(1 + share)
    return [*lengths, 1 + spare - given]


def _draw_points(size: float, chance: random.Random) -> _Points:
    return [(chance.gauss(0.0, size), chance.gauss(0.0, size)) for _ in range(JOINT_COUNT)]


def _sum_points(first: _Points, second: _Points) -> _Points:
    return [(a + c, b + d) for (a, b), (c, d) in zip(first, second)]


def _draw_skill(index: int) -> _Skill:
    """The movement of a class: the same for every data seed, akin to that of its pair."""
    pair = random.Random(f"pair-{index // 2}")
    own = random.Random(f"skill-{index}")
    return _Skill(
        hold=_sum_points(_draw_points(_PAIR_SIZE, pair), _draw_points(_SKILL_SIZE, own)),
        swing_cos=_draw_points(_SWING_SIZE, own),
        swing_sin=_draw_points(_SWING_SIZE, own),
    )


def _draw_noise(chance: random.Random) -> array[float]:
    """Jitter for x and y, and for confidence within ±0.15 so that it stays in [0, 1]."""
    table = array("f")
    for _ in range(_NOISE_ROWS * JOINT_COUNT):
        table.append(chance.gauss(0.0, _JITTER_SIZE))
        table.append(chance.gauss(0.0, _JITTER_SIZE))
        table.append(chance.uniform(-0.15, 0.15))
    return table


def _film(video: _Video, skill: _Skill, noise: array[float], chance: random.Random) -> array[float]:
    """All frames of one video, row after row."""
    view = _draw_view(chance)
    proportions = _draw_points(_PROPORTION_SIZE, chance)
    habit = _draw_points(_HABIT_SIZE, chance)
    stance = view.rows(_sum_points(list(_STANCE), proportions), chance)
    hold = view.rows(_sum_points(skill.hold, habit), None)
    swing_cos = view.rows(skill.swing_cos, None)
    swing_sin = view.rows(skill.swing_sin, None)
    jitter = chance.uniform(0.5, 1.0)
    phase = chance.uniform(0.0, math.tau)
    pace = math.tau / (_PERIOD_FRAMES * chance.uniform(0.7, 1.4))
    frames = video.head + video.body + video.tail
    out = array("f")
    for frame in range(frames):
        weight = _effort(video, frame)
        wave = phase + pace * frame
        cos, sin = weight * math.cos(wave), weight * math.sin(wave)
        start = 3 * int(chance.random() * ((_NOISE_ROWS - 1) * JOINT_COUNT))
        out.extend(
            [
                s + weight * h + cos * c + sin * q + jitter * n
                for s, h, c, q, n in zip(
                    stance, hold, swing_cos, swing_sin, noise[start : start + FEATURE_COUNT]
                )
            ]
        )
    _occlude(out, frames, chance)
    return out


def _effort(video: _Video, frame: int) -> float:
    """How far the body is in the skill: 0 in the stance, 1 in the hold, half at each border."""
    into = frame + 0.5 - video.head
    left = video.head + video.body - frame - 0.5
    nearest = min(into, left)
    return min(1.0, max(0.0, 0.5 + nearest / _RAMP_FRAMES))


@dataclass(frozen=True)
class _View:
    """How a camera sees a performer: a similarity transform and a side."""

    cos: float
    sin: float
    shift: tuple[float, float]
    mirrored: bool

    def rows(self, points: _Points, chance: random.Random | None) -> list[float]:
        """Points as one row of 75; with `chance` placed and with confidences, else directions."""
        if self.mirrored:
            points = [(-points[j][0], points[j][1]) for j in _MIRROR]
        dx, dy = self.shift if chance else (0.0, 0.0)
        row: list[float] = []
        for x, y in points:
            row.append(self.cos * x - self.sin * y + dx)
            row.append(self.sin * x + self.cos * y + dy)
            row.append(chance.uniform(0.4, 0.85) if chance else 0.0)
        return row


def _draw_view(chance: random.Random) -> _View:
    scale = chance.uniform(0.75, 1.25)
    tilt = chance.gauss(0.0, 0.15)
    return _View(
        cos=scale * math.cos(tilt),
        sin=scale * math.sin(tilt),
        shift=(chance.gauss(0.0, 0.2), chance.gauss(0.0, 0.2)),
        mirrored=chance.random() < 0.5,
    )


def _occlude(rows: array[float], frames: int, chance: random.Random) -> None:
    """Zeroes joints for some frames on end, more often in some videos than in others."""
    fraction = chance.uniform(0.0, 2 * _OCCLUDED_FRACTION)
    hidden = array("f", [0.0, 0.0, 0.0])
    for _ in range(round(frames * JOINT_COUNT * fraction / _OCCLUSION_FRAMES)):
        joint = chance.randrange(JOINT_COUNT)
        first = chance.randrange(frames)
        for frame in range(first, min(first + _OCCLUSION_FRAMES, frames)):
            at = frame * FEATURE_COUNT + 3 * joint
            rows[at : at + 3] = hidden
