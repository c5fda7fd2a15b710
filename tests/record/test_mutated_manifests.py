"""Records from elsewhere and from later: unknown fields, newer minors, wrong values, mutations."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainload.api.loading import load
from trainload.errors import RecordError
from trainload.record import Manifest, load_manifest, parse_manifest, save_manifest
from trainload.record.manifest import FORMAT_MINOR, manifest_json
from trainload.report import render_summary
from trainload.workload import RecordedGraph

GOLDEN = Path(__file__).parent.parent / "golden" / "format-1-sealed"
DOCUMENT = json.loads((GOLDEN / "run.json").read_text())
ODD_VALUES = (
    None, True, -1, 0, 10**30, 1e400, float("nan"), 0.5, "", "x", "not measured", [], [None], ["x"],
    {}, {"x": 1}, [[[]]], "\ud800",
)  # fmt: skip
MUTATIONS = 1000


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every part of a document stands."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value[:3]):
            yield from paths_of(item, (*path, position))


def mutate(dice: random.Random) -> dict[str, Any]:
    """The golden record with one to three parts replaced, removed or added."""
    document = copy.deepcopy(DOCUMENT)
    for _ in range(dice.randint(1, 3)):
        path = dice.choice(list(paths_of(document)))
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and dice.random() < 0.2:
            del holder[path[-1]]
        elif isinstance(holder, dict) and dice.random() < 0.2:
            holder[f"later_{dice.randint(0, 9)}"] = dice.choice(ODD_VALUES)
        else:
            holder[path[-1]] = dice.choice(ODD_VALUES)
    return document


def read(document: Any) -> Manifest:
    return parse_manifest(json.dumps(document), "run.json")


def test_a_thousand_mutated_manifests_give_typed_results() -> None:
    refused = noted = 0
    for seed in range(MUTATIONS):
        document = mutate(random.Random(seed))
        try:
            manifest = read(document)
        except RecordError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        assert isinstance(manifest, Manifest)
        noted += bool(manifest.notes)
        again = read(manifest_json(manifest))
        assert again == manifest, f"seed {seed}: what is written back reads the same"
    # Only a format that cannot be told is refused; most wrong values are noted.
    assert refused < MUTATIONS * 0.02 and noted > MUTATIONS * 0.4


@pytest.mark.parametrize("seed", range(120))
def test_a_mutated_run_is_shown(seed: int, tmp_path: Path) -> None:
    document = mutate(random.Random(seed))
    for name in ("steps.parquet", "epochs.parquet", "samples.parquet"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    (tmp_path / "run.json").write_text(json.dumps(document))
    try:
        run = load(tmp_path)
        assert render_summary(run.summary, run.manifest) is not None
        assert run._repr_html_().startswith("<div>")
        assert run.steps.height == 26
    except RecordError as error:
        assert "\n" not in str(error)


def test_a_field_that_this_version_does_not_know_is_kept(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["carbon"] = {"grams": 3}
    document["machine"]["racks"] = [1]
    document["workload"]["training"]["ema"] = 0.99
    document["meters"][0]["quantities"][0]["drift"] = "none"
    (tmp_path / "run.json").write_text(json.dumps(document))
    manifest = load_manifest(tmp_path)
    assert manifest.notes == () and manifest.outcome == "completed"
    save_manifest(tmp_path, manifest)
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["carbon"] == {"grams": 3} and written["machine"]["racks"] == [1]
    assert written["workload"]["training"]["ema"] == 0.99
    assert written["meters"][0]["quantities"][0]["drift"] == "none"


def test_a_newer_minor_version_opens_with_a_note(tmp_path: Path) -> None:
    document = {**DOCUMENT, "format_minor": FORMAT_MINOR + 6, "later": True}
    manifest = read(document)
    assert manifest.outcome == "completed" and "later version" in manifest.notes[0]
    save_manifest(tmp_path, manifest)
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["format_minor"] == FORMAT_MINOR + 6 and written["later"] is True


def test_a_wrong_value_is_missing_and_said_so(tmp_path: Path) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["overhead"]["ratio"] = "much"
    document["machine"]["kernel"] = 6
    document["workload"]["training"]["batch_size"] = "many"
    document["phases"][1]["start_s"] = None
    manifest = read(document)
    assert manifest.overhead is not None and manifest.overhead.ratio is None
    assert manifest.machine is not None and manifest.machine.kernel is None
    assert manifest.machine.cpu_model == "AMD EPYC"
    # A training without its batch size is not one with the default's.
    assert isinstance(manifest.workload, RecordedGraph) and manifest.workload.training is None
    assert manifest.workload.graph is not None and manifest.batch_size is None
    assert [phase.name for phase in manifest.phases] == ["prepare", "train"]
    told = "\n".join(manifest.notes)
    for path in ("overhead.ratio", "machine.kernel", "training.batch_size", "phases[1].start_s"):
        assert path in told
    save_manifest(tmp_path, manifest)
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["overhead"]["ratio"] == "much" and written["machine"]["kernel"] == 6


@pytest.mark.parametrize("sealed", ["perhaps", None, False])
def test_a_sealed_run_is_not_sealed_again_where_the_record_is_wrong(
    sealed: Any, tmp_path: Path
) -> None:
    for name in ("steps.parquet", "epochs.parquet", "samples.parquet"):
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    (tmp_path / "run.json").write_text(json.dumps({**DOCUMENT, "sealed": sealed}))
    assert load(tmp_path).steps.height == 26


def test_the_spelling_of_earlier_watched_runs_is_understood() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["overhead"] = {"verdict": "not measured", "reason": "not paused"}
    manifest = read(document)
    assert manifest.overhead is not None and manifest.overhead.verdict == "not_measured"
    assert manifest.notes == ()
