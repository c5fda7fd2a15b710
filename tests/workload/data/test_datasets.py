"""The word after --data: every kind recognised, one clear line where data and model disagree."""

import struct
from pathlib import Path

import pytest

from data_samples import (
    npy_bytes,
    write_cifar10,
    write_folder,
    write_mnist,
    write_npy,
    write_png,
)
from trainload.errors import WorkloadError
from trainload.workload import MODELS, assemble_workload, cache_folder
from trainload.workload.subset.choose import SubsetRequest, choose_subset
from trainload.workload.subset.files import save_subset
from trainload.workload.subset.summary import summarise_subset


def make(model, data=None, **words):
    options = {name: str(v) if isinstance(v, Path) else v for name, v in words.items()}
    return assemble_workload(model, options if data is None else {"data": str(data), **options})


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_data_without_being_asked(name):
    workload = make(name)
    plain = MODELS[name].examples == "features"
    assert workload.data.kind == ("keypoints" if plain else "synthetic")
    assert workload.training.batch_size == (512 if plain else 32)
    assert workload.data.example_shape == workload.graph.input_shape


@pytest.mark.parametrize("name", MODELS)
def test_synthetic_data_fits_every_model(name):
    workload = make(name, "synthetic", rows=50)
    assert workload.data.rows == 50
    assert workload.data.class_count == workload.graph.output_shape[-1]


def test_synthetic_data_has_at_least_two_rows_a_class():
    assert make("resnet18").data.rows == 2000
    assert make("lenet5").data.rows == 1280
    assert make("lstm_lm").data.rows == 1280


def test_mnist_is_padded_for_lenet5_and_kept_for_others(tmp_path):
    root = write_mnist(tmp_path / "m")
    workload = make("lenet5", f"mnist:{root}")
    assert workload.graph.input_shape == (1, 32, 32) and workload.data.resize == "pad"
    assert workload.data.own_validation and workload.data.rows == 48
    assert workload.graph.output_shape == (2,)
    other = make("resnet18", root)
    assert other.data.shape == (1, 28, 28) and other.data.resize == "none"
    shared = make("lenet5", root, validation_fraction=0.5)
    assert not shared.data.own_validation and shared.data.rows == 40
    plain = make("fully_connected", root)
    assert plain.graph.input_shape == (784,) and plain.data.shape == (1, 28, 28)


def test_cifar10_is_found_inside_its_archive_s_folder(tmp_path):
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    workload = make("resnet18", tmp_path)
    assert workload.data.kind == "cifar10" and workload.graph.input_shape == (3, 32, 32)
    assert workload.data.rows == 30 and len(workload.data.classes) == 10
    larger = make("alexnet", tmp_path, image_height=64, image_width=64)
    assert larger.data.resize == "nearest" and larger.data.shape == (3, 64, 64)


def test_an_image_folder_gives_classes_and_takes_the_model_s_size(tmp_path):
    root = write_folder(tmp_path / "f", classes=("a", "b", "c"))
    workload = make("resnet18", root, cache=tmp_path / "cache")
    assert workload.data.kind == "folder" and workload.data.classes == ("a", "b", "c")
    assert workload.data.shape == (3, 224, 224) and workload.data.resize == "fit"
    assert workload.data.cache == str(tmp_path / "cache" / "images")


def test_folders_of_training_and_validation_images_are_kept_apart(tmp_path):
    write_folder(tmp_path / "train", 5)
    write_folder(tmp_path / "val", 2)
    own = make("lenet5", tmp_path)
    assert own.data.own_validation and own.data.rows == 14
    shared = make("lenet5", tmp_path, validation_fraction=0.3)
    assert shared.data.rows == 10 and shared.data.path.endswith("train")
    write_png(tmp_path / "val" / "other" / "1.png", 4, 4, (1,))
    with pytest.raises(WorkloadError, match=r"a class that .*train does not have"):
        make("lenet5", tmp_path)


def test_arrays_for_every_kind_of_model(tmp_path):
    floats = struct.pack("<24f", *range(24))
    flat = write_npy(tmp_path / "flat", "<f4", (4, 6), floats, [0, 1, 2, 0])
    assert make("mlp", flat).graph.input_shape == (6,)
    assert make("mlp", f"npy:{flat}", classes=5).data.classes == 5
    steps = write_npy(tmp_path / "steps", "<f4", (4, 3, 2), floats, [0, 1, 1, 0])
    assert make("recurrent", steps).graph.input_shape == (3, 2)
    grey = write_npy(tmp_path / "grey", "|u1", (2, 16, 16), bytes(512), [0, 1])
    assert make("lenet5", grey).graph.input_shape == (1, 16, 16)
    tokens = struct.pack("<8h", 1, 2, 3, 4, 5, 6, 7, 8)
    labelled = write_npy(tmp_path / "tokens", "<i2", (4, 2), tokens, [0, 1, 1, 0])
    assert make("transformer_encoder", labelled).model_options["vocabulary"] == 9
    stream = write_npy(tmp_path / "stream", "<i2", (8,), tokens, None)
    workload = make("lstm_lm", stream, steps=3)
    assert workload.data.rows == 2 and workload.graph.output_shape == (3, 9)


def folder_of_one(path):
    write_png(path / "a" / "1.png", 4, 4, (1,))
    return path


def empty_class(path):
    write_folder(path)
    (path / "none").mkdir()
    return path


def cut_cifar10(path):
    write_cifar10(path)
    (path / "data_batch_1.bin").write_bytes(b"\0" * 3000)
    return path


def mnist_without_labels(path):
    write_mnist(path)
    (path / "train-labels-idx1-ubyte.gz").unlink()
    return path


def broken_gzip(path):
    write_mnist(path)
    (path / "train-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8bnonsense")
    return path


def arrays(dtype, shape, content, labels):
    return lambda path: write_npy(path, dtype, shape, content, labels)


FLOATS = struct.pack("<12f", *range(12))


@pytest.mark.parametrize(
    ("model", "build", "words", "message"),
    [
        ("lenet5", folder_of_one, {}, r"1 folder\(s\); at least 2 classes"),
        ("lenet5", empty_class, {}, "none: no image in this class"),
        ("lenet5", write_folder, {"image_channels": 2}, r"1 or 3 or 4 channel\(s\), but image_ch"),
        ("lenet5", write_folder, {"classes": 5}, "the data has 2 classes"),
        ("lenet5", write_folder, {"rows": 5}, "rows is for synthetic data"),
        ("lenet5", write_folder, {"label_column": "x"}, "label_column is for a table"),
        ("mlp", write_folder, {}, "mlp trains on features, and folder gives images"),
        ("lstm_lm", write_mnist, {}, "lstm_lm trains on tokens, and mnist gives images"),
        ("lenet5", write_mnist, {"image_channels": 3}, r"1 channel\(s\), but image_channels is 3"),
        ("alexnet", write_mnist, {}, "the images are 28×28, other sizes are reached with --set"),
        ("resnet18", cut_cifar10, {}, "3000 bytes are no whole number of 3073-byte images"),
        ("lenet5", mnist_without_labels, {}, "no train-labels-idx1-ubyte"),
        ("lenet5", broken_gzip, {}, "cannot read"),
        ("mlp", arrays("<f4", (4, 3), FLOATS, [0, 1, 0]), {}, "4 rows of features, 3 labels"),
        ("mlp", arrays("<f4", (4, 3), FLOATS, [0, -1, 0, 1]), {}, "label -1 is below 0"),
        ("mlp", arrays("<f4", (4, 3), FLOATS, [0, 9, 0, 1]), {"classes": 4}, "labels up to 9"),
        ("mlp", arrays("<f4", (4, 3), FLOATS[:-4], [0, 1, 0, 1]), {}, "44 bytes of values"),
        ("mlp", arrays(">f4", (4, 3), FLOATS, [0, 1, 0, 1]), {}, "values of type '>f4'"),
        ("mlp", arrays("<f4", (4, 3, 1), FLOATS, [0, 1, 0, 1]), {}, "features are rows × inputs"),
        ("mlp", arrays("<i4", (4, 3), FLOATS, [0, 1, 0, 1]), {}, "save it as float32"),
        (
            "mlp",
            arrays("<f4", (4, 3), FLOATS, None),
            {},
            "classes: 0 must be at least 2|labels.npy",
        ),
        ("lstm_lm", arrays("<i4", (12,), FLOATS, [0] * 12), {}, "no labels.npy|are rows × steps"),
        ("lstm_lm", arrays("<f4", (12,), FLOATS, None), {}, "tokens must be whole numbers"),
    ],
)
def test_wrong_data_is_one_clear_line(tmp_path, model, build, words, message):
    path = build(tmp_path / "data")
    with pytest.raises(WorkloadError, match=message) as caught:
        make(model, path, **words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("mnist", "say where it is, as in mnist:/path"),
        ("synthetic:/x", "generated and has no path"),
        ("cifar10:/nowhere", "trainload downloads no data set"),
        ("/nowhere/at/all", "no such file or folder"),
        ("sythetic", "did you mean 'synthetic'"),
        ("csv:/nowhere.csv", "lenet5 trains on images, and csv gives features"),
    ],
)
def test_wrong_words(data, message):
    with pytest.raises(WorkloadError, match=message):
        make("lenet5", data)


def test_an_empty_folder_is_told(tmp_path):
    with pytest.raises(WorkloadError, match="holds no image folders, no CIFAR-10"):
        make("lenet5", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no", "no npy file"),
        (b"\x93NUMPY\x01\x00\x05\x00{'a':", "header cannot be read"),
        (npy_bytes("<f4", (2, 2), bytes(16), fortran=True), "columns first"),
        (npy_bytes("|O", (2,), bytes(16)), "values of type"),
    ],
)
def test_wrong_npy_files(tmp_path, content, message):
    (tmp_path / "features.npy").write_bytes(content)
    with pytest.raises(WorkloadError, match=message):
        make("mlp", f"npy:{tmp_path}")


def test_the_cache_is_the_user_s_unless_named(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder(None) == tmp_path / "trainload"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder(None) == Path.home() / ".cache" / "trainload"
    assert cache_folder("~/x") == Path.home() / "x"


def test_folders_inside_a_class_belong_to_it(tmp_path):
    write_folder(tmp_path / "f", 3)
    write_png(tmp_path / "f" / "dark" / "2019" / "may" / "a.png", 4, 4, (1,))
    write_png(tmp_path / "f" / "dark" / ".hidden" / "b.png", 4, 4, (1,))
    (tmp_path / "f" / "dark" / "2019" / "back").symlink_to(tmp_path / "f" / "dark")
    workload = make("lenet5", tmp_path / "f", cache=tmp_path / "cache")
    assert workload.data.rows == 7 and workload.data.classes == ("dark", "light")


def write_subset(folder, out, **options):
    request = SubsetRequest(folder=folder, **options)
    subset = choose_subset(request)
    save_subset(subset, summarise_subset(subset), out, link=False, force=False)
    return out


def test_a_subset_is_trained_on_by_its_manifest(tmp_path):
    write_folder(tmp_path / "f", 8)
    out = write_subset(tmp_path / "f", tmp_path / "s", per_class=4, validation_fraction=0.25)
    for word in (out, out / "subset.json", f"subset:{out / 'manifest.jsonl'}"):
        data = make("lenet5", word, cache=tmp_path / "cache").data
        assert data.kind == "subset" and data.path == str(out) and data.own_validation
        assert data.rows == 8 and data.classes == ("dark", "light") and data.resize == "fit"
    shared = make("lenet5", out, validation_fraction=0.5, cache=tmp_path / "cache").data
    assert not shared.own_validation and shared.rows == 6


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("manifest.jsonl", "{}", "line 1: not a line that trainload subset writes"),
        ("manifest.jsonl", "", "0 class"),
        ("subset.json", '{"folder": "/nowhere"}', "were at /nowhere, which is not there any more"),
        ("subset.json", "[", "cannot read"),
    ],
)
def test_a_damaged_subset_is_one_line(tmp_path, file, content, message):
    write_folder(tmp_path / "f", 4)
    out = write_subset(tmp_path / "f", tmp_path / "s")
    (out / file).write_text(content)
    with pytest.raises(WorkloadError, match=message):
        make("lenet5", out)


def test_a_subset_that_is_none_is_told(tmp_path):
    with pytest.raises(WorkloadError, match=r"holds no manifest.jsonl and subset.json"):
        make("lenet5", f"subset:{tmp_path}")
