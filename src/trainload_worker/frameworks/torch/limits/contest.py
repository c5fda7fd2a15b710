"""Contenders started, asked and ended; each trains in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from trainload_worker.frameworks.torch.limits.contender import Training
from trainload_worker.limits.sampling import Lacking

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "contender.py")


class Contender:
    """One training process; used as a context."""

    def __init__(
        self,
        training: Training,
        *,
        threads: int = 1,
        cores: Optional[Sequence[int]] = None,
        variables: Optional[Mapping[str, str]] = None,
    ) -> None:
        told = json.dumps({"training": asdict(training), "threads": threads})
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **(variables or {})}
        self._process = subprocess.Popen(
            [sys.executable, _SCRIPT, told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        if cores is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._process.pid, cores)

    def __enter__(self) -> Contender:
        try:
            self.hear()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_ending: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # a word that it did not hear any more

    def tell(self, asked: Mapping[str, Any]) -> None:
        """Hands over a line; the answer is fetched later, so that several work at once."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Lacking("a training that was to be measured has ended early") from None

    def hear(self) -> Any:
        """The answer; Lacking where the process has ended without one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Lacking("a training that was to be measured has ended early")
        return json.loads(line).get("value")


@contextmanager
def one_on_each(training: Training, cores: Sequence[int]) -> Iterator[List[Contender]]:
    """A contender of one thread on each core; they start at once, for torch takes seconds to."""
    found: List[Contender] = []
    with ExitStack() as stack:
        for core in cores:
            found.append(Contender(training, cores=[core]))
            stack.callback(found[-1].end)
        for one in found:
            one.hear()
        yield found


def ask_all(contenders: Sequence[Contender], asked: Dict[str, Any]) -> List[Any]:
    """The same of each, all at once."""
    for one in contenders:
        one.tell(asked)
    return [one.hear() for one in contenders]
