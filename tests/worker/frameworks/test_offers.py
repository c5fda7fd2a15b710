"""What frameworks say of themselves agrees with the files they have; no framework is needed."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import trainload_worker.frameworks
from trainload_worker.protocol.offers import (
    DEFAULT_FRAMEWORK,
    FRAMEWORKS,
    Offer,
    UnknownFramework,
    find_offer,
    list_offers,
)

HOME = Path(trainload_worker.frameworks.__file__).parent
SHARED = {"arrays", "xla"}
EVERYWHERE = {"__init__", "offer", "backend", "state"}
TRAINING = {"graph", "kinds", "optimizers"}


def parts(name: str) -> set[str]:
    """Names of the modules and packages in a framework's folder."""
    folder = HOME / name
    packages = {path.parent.name for path in folder.glob("*/__init__.py")}
    return {path.stem for path in folder.glob("*.py")} | packages


def offered_parts(offer: Offer) -> dict[str, bool]:
    """Files that must be there just where the offer says so."""
    return {
        **dict.fromkeys(TRAINING, offer.trains),
        "loader": offer.native_loader is not None,
        "tracer": bool(offer.graph_layers),
        "probe": offer.scripts or offer.told_steps,
        "layers": offer.script_layers,
        "limits": offer.limits,
        "fake_step": offer.op_trace,
        "sweep": offer.sweep,
    }


def test_every_folder_is_a_framework_or_shared() -> None:
    folders = {path.parent.name for path in HOME.glob("*/__init__.py")}
    assert folders == set(FRAMEWORKS) | SHARED


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_offer_agrees_with_the_files(name: str) -> None:
    offer = find_offer(name)
    assert offer.name == name and parts(name) >= EVERYWHERE
    expected = offered_parts(offer)
    assert {part: part in parts(name) for part in expected} == expected
    pinned = Path(offer.requirements_file)
    assert pinned.is_file() == bool(offer.distributions) == bool(offer.modules)
    assert offer.lowest < offer.below or not offer.distributions
    assert set(offer.graph_layers) <= {"cpu", "cuda"}
    assert offer.native_loader is None or "{}" in offer.native_loader.described


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_other_files_are_named_where_the_folder_is_described(name: str) -> None:
    own = parts(name) - EVERYWHERE - set(offered_parts(find_offer(name))) - {"profile"}
    said = import_module(f"trainload_worker.frameworks.{name}").__doc__ or ""
    assert [part for part in sorted(own) if f"`{part}`" not in said] == []


def test_the_convention_names_every_common_file() -> None:
    said = trainload_worker.frameworks.__doc__ or ""
    common = (EVERYWHERE - {"__init__"}) | set(offered_parts(find_offer(DEFAULT_FRAMEWORK)))
    assert [part for part in sorted(common) if part not in said] == []


def test_what_is_hidden_is_found_by_name_alone() -> None:
    assert find_offer("fake").hidden
    assert [offer.name for offer in list_offers()] == [n for n in FRAMEWORKS if n != "fake"]
    with pytest.raises(UnknownFramework, match="caffe: no such framework; there are torch, tens"):
        find_offer("caffe")


def test_no_offer_imports_a_framework() -> None:
    code = (
        "import sys; from trainload_worker.protocol.offers import FRAMEWORKS, find_offer\n"
        "modules = [m for name in FRAMEWORKS for m in find_offer(name).modules]\n"
        "print([m for m in [*modules, 'numpy', 'trainload'] if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=HOME.parents[1])
    assert done.stdout == "[]\n", done.stderr
