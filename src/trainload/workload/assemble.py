"""From a model's name and `name=value` words to a checked workload."""

import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from trainload.errors import WorkloadError
from trainload.workload.checked import Bounds, build_checked, parse_word, suggest
from trainload.workload.datasets import Data, keypoint_data, scan_csv
from trainload.workload.models import Model, build_model, find_model
from trainload.workload.spec import Optimizer, Seeds, Training, Workload


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which data, as words on a command line."""

    data: str = "keypoints"
    """`keypoints` (generated), or the path of a CSV table."""
    frames_fraction: Annotated[float, Bounds(above=0, high=100)] = 1.0
    """Share of study L's frame counts to generate."""
    label_column: str = "label"
    group_column: str | None = None
    validation_fraction: Annotated[float, Bounds(above=0, below=1)] = 0.2


def parse_words(words: Sequence[str]) -> dict[str, str]:
    """`["hidden_units=512"]` as a mapping; WorkloadError for a word without '='."""
    parsed: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise WorkloadError(f"--set {word!r}: write it as name=value, such as hidden_units=512")
        parsed[name.strip()] = value.strip()
    return parsed


def settable_names(model: str) -> dict[str, tuple[type[Any], str]]:
    """Every name `--set` takes for this model, with the spec type and field it belongs to."""
    options_type = find_model(model).options
    names: dict[str, tuple[type[Any], str]] = {}
    for cls in (options_type, Training, Optimizer, DataOptions):
        for spec in fields(cls):
            if spec.name != "optimizer":
                names["optimizer" if (cls, spec.name) == (Optimizer, "name") else spec.name] = (
                    cls,
                    spec.name,
                )
    for spec in fields(Seeds):
        names[f"seed_{spec.name}"] = (Seeds, spec.name)
    return names


def assemble_workload(model: str, words: Mapping[str, str], *, seed: int = 0) -> Workload:
    """The workload that a model name and the `--set` words describe.

    `seed` is the default of all four seeds. The table's features and classes win over the
    model's defaults; naming other ones is an error of the workload.
    """
    family = find_model(model)
    _refuse_without_data(model, family)
    options_type = family.options
    names = settable_names(model)
    values: dict[type[Any], dict[str, Any]] = {
        Seeds: {spec.name: seed for spec in fields(Seeds)},
    }
    for name, text in words.items():
        if name not in names:
            raise WorkloadError(f"--set {name}: no such name{suggest(name, names)}")
        cls, field_name = names[name]
        hint = typing.get_type_hints(cls, include_extras=True)[field_name]
        values.setdefault(cls, {})[field_name] = parse_word(hint, text, f"--set {name}")
    _refuse_idle_words(values.get(DataOptions, {}))
    data = _choose_data(build_checked(DataOptions, values.get(DataOptions, {}), "data"))
    options_values = values.get(options_type, {})
    options_values.setdefault("inputs", data.features)
    options_values.setdefault("classes", len(data.classes))
    options = build_checked(options_type, options_values, model)
    optimizer = build_checked(Optimizer, values.get(Optimizer, {}), "optimizer")
    return Workload(
        model=model,
        model_options=asdict(options),
        graph=build_model(model, options),
        data=data,
        training=build_checked(
            Training, {**values.get(Training, {}), "optimizer": optimizer}, "training"
        ),
        seeds=build_checked(Seeds, values[Seeds], "seeds"),
    )


def _refuse_without_data(name: str, model: Model) -> None:
    """Networks whose examples no data set here can give."""
    if model.examples != "features":
        raise WorkloadError(
            f"{name} trains on {model.examples}, and this version has no data set of them yet: "
            f"it runs the models of plain features (mlp, fully_connected); "
            f"trainload models {name} shows its layers"
        )


def _refuse_idle_words(given: Mapping[str, Any]) -> None:
    """Words that would have no effect beside the data chosen are a mistake."""
    generated = given.get("data", "keypoints") == "keypoints"
    idle = ("label_column", "group_column") if generated else ("frames_fraction",)
    for name in idle:
        if name in given:
            kind = "a table: give one with --data" if generated else "generated keypoints"
            raise WorkloadError(f"{name} is for {kind}")


def _choose_data(options: DataOptions) -> Data:
    if options.data == "keypoints":
        return keypoint_data(options.frames_fraction, options.validation_fraction)
    return scan_csv(
        Path(options.data).expanduser(),
        label_column=options.label_column,
        group_column=options.group_column,
        validation_fraction=options.validation_fraction,
    )
