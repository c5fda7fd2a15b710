"""The words for a built-in model's options as typed values; knows no verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parse_model_words(
    model: str, classes: int | None, input_shape: str | None, words: Sequence[str]
) -> dict[str, Any]:
    """What --classes, --input and --set give, by option; WorkloadError names the word."""
    from trainload.workload import input_words, parse_options, split_words

    given = split_words(words)
    if classes is not None:
        given["classes"] = str(classes)
    if input_shape is not None:
        given.update(input_words(model, input_shape))
    options = parse_options(model, given)
    return {name: getattr(options, name) for name in given}
