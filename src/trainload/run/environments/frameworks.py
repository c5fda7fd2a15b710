"""The frameworks this version knows, and what an interpreter must have to serve one.

Reads the pinned requirements shipped beside it and nothing of the machine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainload.errors import UsageError

_REQUIREMENTS = Path(__file__).parent / "requirements"


@dataclass(frozen=True, kw_only=True)
class Framework:
    """What makes an interpreter one of this framework's."""

    distributions: tuple[str, ...]
    """Names under which it may be installed; one is enough."""
    lowest: tuple[int, int]
    below: tuple[int, int]
    also: tuple[str, ...] = ()
    """Other distributions that its backend imports."""
    modules: tuple[str, ...] = ()
    """What of those it imports; an import that dies is seen by trying them all."""

    @property
    def accepted(self) -> str:
        """The versions that the backend is written for."""
        low, high = (".".join(map(str, bound)) for bound in (self.lowest, self.below))
        return f"from {low} to below {high}"


FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework(distributions=("torch",), lowest=(1, 13), below=(3, 0)),
    # Keras 3 came with 2.16.
    "tensorflow": Framework(
        distributions=("tensorflow-cpu", "tensorflow"),
        lowest=(2, 16),
        below=(3, 0),
        also=("keras", "numpy"),
        modules=("keras",),
    ),
    "jax": Framework(
        distributions=("jax",),
        lowest=(0, 7),
        below=(1, 0),
        also=("flax", "optax", "numpy"),
        modules=("flax.nnx", "optax"),
    ),
    "mxnet": Framework(distributions=("mxnet",), lowest=(1, 9), below=(2, 0), also=("numpy",)),
}


def find_framework(framework: str) -> Framework:
    """That framework; UsageError where there is none of that name."""
    if framework not in FRAMEWORKS:
        raise UsageError(f"{framework}: no such framework; there are {', '.join(FRAMEWORKS)}")
    return FRAMEWORKS[framework]


def requirements_file(framework: str) -> Path:
    """The requirements that a new environment is made from."""
    find_framework(framework)
    return _REQUIREMENTS / f"{framework}.txt"


def pinned_versions(framework: str) -> dict[str, str]:
    """The versions that a new environment gets, by distribution."""
    pins = (line.partition("==") for line in _requirement_lines(framework) if "==" in line)
    return {name.strip(): version.strip() for name, _, version in pins}


def python_range(framework: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last Python version that the pinned packages exist for."""
    first = _requirement_lines(framework)[0]
    found = re.fullmatch(r"# python (\d+\.\d+)-(\d+\.\d+)", first)
    assert found, f"requirements of {framework} begin with their Python versions"
    return release_of(found[1]), release_of(found[2])


def release_of(version: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) where it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _requirement_lines(framework: str) -> list[str]:
    return requirements_file(framework).read_text(encoding="utf-8").splitlines()
