"""Tells whoever follows a program of every optimizer's step, by one hook of torch for all.

While they rest, a step is one look at the clock. Tells nobody what a step was.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Callable, Protocol

from torch.optim.optimizer import register_optimizer_step_post_hook

from trainload_worker.frameworks.torch.compiler import interrupting_compiler, set_compiler

LEAST_REST_S = 0.1
"""A shorter rest is not worth its beginning and end."""


class StepFollower(Protocol):
    """Somebody who is told of every step of every optimizer; never raises."""

    def on_step(self, optimizer: Any) -> None:
        """An optimizer has stepped."""

    def idle_until_s(self, optimizer: Any, now_s: float) -> float:
        """Until when only the number of this optimizer's steps is of interest; the past: never."""

    def pass_steps(self, count: int, now_s: float) -> None:
        """So many steps have passed in a rest that somebody else began; it has just ended."""


class _Rest:
    """Steps of one optimizer that nobody is told of; held weakly, as its program may free it."""

    def __init__(
        self, optimizer: Callable[[], Any], until_s: float, end: Callable[[list[float]], None]
    ) -> None:
        self.optimizer = optimizer
        self.until_s = until_s
        self.end = end
        self.ends_s: list[float] = []


class OptimizerSteps:
    """Calls its followers in the order in which they came."""

    def __init__(self) -> None:
        self._followers: tuple[StepFollower, ...] = ()
        self._hook: Any = None
        self._rest: _Rest | None = None

    def follow(self, follower: StepFollower) -> Callable[[], None]:
        """Tells it of every step from here on; what is given back ends that."""
        self.wake()
        if self._hook is None:
            self._hook = register_optimizer_step_post_hook(self._on_step)
        self._followers = (*self._followers, follower)

        def leave() -> None:
            self.wake()
            self._followers = tuple(one for one in self._followers if one is not follower)
            if not self._followers and self._hook is not None:
                self._hook.remove()
                self._hook = None

        return leave

    def rest(
        self,
        who: StepFollower,
        optimizer: Callable[[], Any],
        until_s: float,
        end: Callable[[list[float]], None],
    ) -> bool:
        """Lets this optimizer's steps pass until then, where the other followers can do without.

        `end` is called with the moments at which those steps ended by the host's clock: when the
        time is over, another optimizer steps, or somebody wakes all. Whether the rest has begun.
        """
        now_s = monotonic()
        for follower in self._followers:
            if follower is not who:
                until_s = min(until_s, follower.idle_until_s(optimizer(), now_s))
        if until_s - now_s < LEAST_REST_S:
            return False

        def end_for_all(ends_s: list[float]) -> None:
            for follower in self._followers:
                if follower is not who:
                    follower.pass_steps(len(ends_s), monotonic())
            end(ends_s)

        self._rest = _Rest(optimizer, until_s, end_for_all)
        return True

    def wake(self) -> None:
        """Ends a rest at once, if there is one."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.end(rest.ends_s)

    @interrupting_compiler
    def _on_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """An optimizer has stepped. In every step, so that few functions are called."""
        rest = self._rest
        rests = rest is not None and optimizer is rest.optimizer()
        if rests:
            now_s = monotonic()
            rest.ends_s.append(now_s)  # type: ignore[union-attr]
            if now_s < rest.until_s:  # type: ignore[union-attr]
                return
        compiler = set_compiler(None)
        try:
            if rest is not None:
                self.wake()
            if not rests:
                for follower in self._followers:
                    follower.on_step(optimizer)
        finally:
            if compiler is not None:
                set_compiler(compiler)


optimizer_steps = OptimizerSteps()
"""Of this process."""
