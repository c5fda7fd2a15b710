"""`trainload.watch_step`: a training recorded by its step function, in one line.

For JAX, where nothing but the program knows what a step is, and for loops of any other kind.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.integrations.following import Following, fails_open, number_of

_ORDER = ("jax", "tensorflow", "torch")


class WatchedStep:
    """The step function, and a recording that begins with its first call.

    It ends with `close`, or with the program. Whatever else is asked of it, the function answers.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        following: Following,
        loss: Callable[[Any], Any] | None,
        examples: int | Callable[..., int] | None,
        config: Mapping[str, Any] | None,
    ) -> None:
        functools.update_wrapper(self, step, updated=())
        self._step, self._following = step, following
        self._loss, self._examples = loss, examples
        self._begun = False
        self._config = config

    @property
    def path(self) -> Path | None:
        """The run directory; None before the first call and where nothing is recorded."""
        return self._following.path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for these arguments."""
        if not self._begun:
            self._begun = True
            self._following.begin(config=self._config)
        if self._following.watch is None:
            return self._step(*args, **kwargs)
        rows = self._examples
        if callable(rows):
            rows = rows(*args, **kwargs)  # before the call: it may take the arguments' memory
        found = self._step(*args, **kwargs)
        self._tell(found, rows)
        return found

    @fails_open
    def _tell(self, found: Any, rows: int | None) -> None:
        opened = self._following.watch
        if opened is not None:
            opened.step(self._loss(found) if self._loss else find_loss(found), rows)

    def close(self) -> None:
        """Ends the recording; the next call begins another."""
        self._following.end()
        self._begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._step, name)


def watch_step(
    step: Callable[..., Any],
    *,
    name: str = "watched",
    out: str | Path = "runs",
    loss: Callable[[Any], Any] | None = None,
    examples: int | Callable[..., int] | None = None,
    config: Mapping[str, Any] | None = None,
    framework: str | None = None,
    rate_hz: float = 10.0,
) -> WatchedStep:
    """The same step function, each call of which is a recorded step.

    `loss` picks the loss from what it returns; by default the only single number in there.
    `examples` is how many rows a step trains on, or a function of the step's arguments. UsageError
    for what cannot be called. Where no recording can begin, a warning says so and the step runs on.
    """
    if not callable(step):
        raise UsageError(f"watch_step takes the step function, not {type(step).__name__}")
    chosen = framework or next((one for one in _ORDER if one in sys.modules), None)
    following = Following(name, out, lasts=True, framework=chosen, layers=False, rate_hz=rate_hz)
    return WatchedStep(step, following, loss, examples, config)


def find_loss(found: Any) -> Any:
    """The only single number in what a step returns; None where there is none, or several."""
    values = found.values() if isinstance(found, Mapping) else found
    several = [found] if values is found and not isinstance(found, tuple | list) else [*values]
    numbers = [value for value in several if _is_single(value)]
    return numbers[0] if len(numbers) == 1 else None


def _is_single(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    if shape is not None:
        kind = str(getattr(value, "dtype", ""))
        return tuple(shape) == () and "float" in kind
    return isinstance(value, float) and number_of(value) is not None
