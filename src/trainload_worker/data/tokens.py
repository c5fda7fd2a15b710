"""Draws tokens that a network can learn, by a generator it is given; needs no library.

Frequencies fall as in a language: the k-th token is about 1/k as frequent as the first.
"""

from __future__ import annotations

import random
from array import array

from trainload_worker.data.dataset import Dataset
from trainload_worker.protocol.data import SyntheticData

_FOLLOWED_SHARE = 0.6
"""How often a token of a stream is followed by its own successor."""
_TELLING_SHARE = 0.3
"""How often a token of a labelled row is one that its class prefers."""
_TELLING_TOKENS = 8


def draw_stream(spec: SyntheticData, chance: random.Random) -> Dataset:
    """One long text, cut into rows: each token has a successor that often follows it."""
    steps, vocabulary = spec.shape[0], spec.classes
    successors: dict[int, int] = {}
    tokens = array("q")
    token = _draw_token(vocabulary, chance)
    for _ in range(spec.rows * steps + 1):
        tokens.append(token)
        if chance.random() < _FOLLOWED_SHARE:
            if token not in successors:
                successors[token] = _draw_token(vocabulary, chance)
            token = successors[token]
        else:
            token = _draw_token(vocabulary, chance)
    return Dataset(
        features=tokens,
        labels=array("q"),
        groups=array("q", range(spec.rows)),
        feature_count=steps,
        classes=(),
        form="int64",
        vocabulary=vocabulary,
    )


def draw_labelled_tokens(spec: SyntheticData, labels: array[int], chance: random.Random) -> Dataset:
    """Rows of tokens, some of which belong to a few that the row's class prefers."""
    steps, vocabulary = spec.shape[0], spec.vocabulary or 2
    telling = [
        [chance.randrange(vocabulary) for _ in range(_TELLING_TOKENS)] for _ in range(spec.classes)
    ]
    tokens = array("q")
    for label in labels:
        own = telling[label]
        tokens.extend(
            [
                chance.choice(own)
                if chance.random() < _TELLING_SHARE
                else _draw_token(vocabulary, chance)
                for _ in range(steps)
            ]
        )
    return Dataset(
        features=tokens,
        labels=labels,
        groups=array("q", range(spec.rows)),
        feature_count=steps,
        classes=tuple(map(str, range(spec.classes))),
        form="int64",
    )


def _draw_token(vocabulary: int, chance: random.Random) -> int:
    """A number below `vocabulary`, log-uniform: Zipf's law."""
    return min(int((vocabulary + 1) ** chance.random()) - 1, vocabulary - 1)
