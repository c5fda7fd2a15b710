"""The frameworks this version knows, and what their new environments are made of.

Reads what the frameworks offer and their pinned requirements, and nothing of the machine.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from trainload.errors import UsageError
from trainload_worker.protocol.offers import Offer, UnknownFramework, find_offer, list_offers

FRAMEWORKS: Mapping[str, Offer] = {offer.name: offer for offer in list_offers()}


def find_framework(framework: str) -> Offer:
    """What that framework offers; UsageError where there is none of that name."""
    try:
        return find_offer(framework)
    except UnknownFramework as error:
        raise UsageError(str(error)) from None


def find_installable(framework: str) -> Offer:
    """The same for one that needs an environment; UsageError where it runs in any interpreter."""
    offer = find_framework(framework)
    if not offer.distributions:
        raise UsageError(f"{framework} needs no environment: it runs in any interpreter")
    return offer


def requirements_file(framework: str) -> Path:
    """The requirements that a new environment is made from."""
    return Path(find_installable(framework).requirements_file)


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
