"""Images on disk: decoded once into a file that is whole, checked and the same for everyone."""

import json
import os
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from data_samples import write_cifar10, write_folder, write_mnist, write_png
from trainload_worker.data import cache as cache_module
from trainload_worker.data.cache import open_cache
from trainload_worker.data.image_arrays import make_fit
from trainload_worker.data.images import load_images
from trainload_worker.errors import DataError
from trainload_worker.protocol.data import ImageData


def images_spec(path: Path, kind: str, shape: tuple[int, ...], **changes: Any) -> ImageData:
    fields: dict[str, Any] = {
        "kind": kind,
        "path": str(path),
        "shape": shape,
        "classes": ("dark", "light"),
        "resize": "fit" if kind == "folder" else "none",
        "own_validation": kind != "folder",
        "cache": str(path.parent / "cache"),
        "validation_fraction": 0.2,
    }
    return ImageData(**{**fields, **changes})


class Squares:
    """A source of little squares that counts what is read, and may stop or break."""

    shape = (1, 2, 2)

    def __init__(
        self, count: int, stop_at: int | None = None, broken: tuple[int, ...] = ()
    ) -> None:
        self.labels = array("q", [n % 3 for n in range(count)])
        self.train_count = count
        self.read_items: list[int] = []
        self._stop_at, self._broken = stop_at, broken

    def identity(self) -> dict[str, Any]:
        return {"source": "squares", "contents": [["x", len(self.labels), 1]]}

    def name(self, item: int) -> str:
        return f"square {item}"

    def read(self, first: int, last: int) -> Any:
        for item in range(first, last):
            if item == self._stop_at:
                raise KeyboardInterrupt
            self.read_items.append(item)
            yield (None, "torn") if item in self._broken else (bytes([item % 256]) * 4, None)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SHARD_BYTES", 40)  # ten squares


def test_the_file_says_itself_how_to_read_it(tmp_path: Path) -> None:
    made = open_cache(str(tmp_path), Squares(25, broken=(3, 24)), ("a", "b", "c"))
    content = Path(made.path).read_bytes()
    head = json.loads(content[: content.index(b"\n")])
    assert head["layout"] == "NCHW" and head["dtype"] == "uint8" and head["shape"] == [1, 2, 2]
    assert head["rows"] == 23 and head["classes"] == ["a", "b", "c"]
    assert content[head["header_bytes"] :][: 4 * 4] == b"\0\0\0\0\1\1\1\1\2\2\2\2\4\4\4\4"
    labels = array("q", content[head["labels_offset"] :][: 8 * 23])
    assert list(labels) == [n % 3 for n in range(25) if n not in (3, 24)] == list(made.labels)
    assert made.broken == [("square 3", "torn"), ("square 24", "torn")]
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".images", ".lock"]


def test_a_second_opening_decodes_nothing(tmp_path: Path) -> None:
    first = open_cache(str(tmp_path), Squares(25), ("a", "b", "c"))
    again = Squares(25)
    second = open_cache(str(tmp_path), again, ("a", "b", "c"))
    assert first.built and not second.built and again.read_items == []
    assert bytes(second.pixels) == bytes(first.pixels)


@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_build_goes_on_after_its_last_whole_shard(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        open_cache(str(tmp_path), Squares(35, stop_at=27, broken=(5,)), ("a", "b", "c"))
    assert not list(tmp_path.glob("*.images"))
    rest = Squares(35, broken=(5,))
    made = open_cache(str(tmp_path), rest, ("a", "b", "c"))
    assert rest.read_items == list(range(20, 35))
    other = open_cache(str(tmp_path / "other"), Squares(35, broken=(5,)), ("a", "b", "c"))
    assert Path(made.path).read_bytes() == Path(other.path).read_bytes()


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("harm", ["pixels", "log"])
def test_a_damaged_part_is_gone_on_with_before_the_damage(tmp_path: Path, harm: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        open_cache(str(tmp_path), Squares(35, stop_at=27), ("a", "b", "c"))
    (part,), (log,) = tmp_path.glob("*.part"), tmp_path.glob("*.shards")
    if harm == "pixels":
        content = bytearray(part.read_bytes())
        content[-1] ^= 1
        part.write_bytes(content)
    else:
        log.write_text(log.read_text()[:-9])
    rest = Squares(35)
    made = open_cache(str(tmp_path), rest, ("a", "b", "c"))
    assert rest.read_items == list(range(10, 35))
    assert bytes(made.pixels) == b"".join(bytes([n]) * 4 for n in range(35))


@pytest.mark.parametrize("place", ["head", "pixels", "labels", "tail", "length"])
def test_a_damaged_file_is_built_again(tmp_path: Path, place: str) -> None:
    made = open_cache(str(tmp_path), Squares(25), ("a", "b", "c"))
    content = bytearray(Path(made.path).read_bytes())
    head = json.loads(content[: content.index(b"\n")])
    at = {
        "head": 3,
        "pixels": head["header_bytes"] + 9,
        "labels": head["labels_offset"] + 8,
        "tail": head["tail_offset"] + 30,
        "length": 0,
    }[place]
    content[at] ^= 1
    Path(made.path).write_bytes(content[:-1] if place == "length" else content)
    again = Squares(25)
    assert open_cache(str(tmp_path), again, ("a", "b", "c")).built
    assert len(again.read_items) == 25


def test_no_readable_image_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the 2 images can be read; square 0: torn"):
        open_cache(str(tmp_path), Squares(2, broken=(0, 1)), ("a",))


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="choose another with --cache"):
        open_cache(str(tmp_path / "file" / "x"), Squares(2), ("a",))


@pytest.mark.parametrize("compress", [True, False])
def test_mnist_rows_and_its_own_test_set(tmp_path: Path, compress: bool) -> None:
    root = write_mnist(tmp_path / "m", compress=compress)
    dataset = load_images(images_spec(root, "mnist", (1, 32, 32), resize="pad"))
    assert dataset.row_count == 48 and dataset.validation_from == 40
    assert list(dataset.labels[:4]) == [0, 1, 0, 1] and dataset.form == "uint8"
    picture = bytes(dataset.features[1024:2048])
    assert picture[: 2 * 32] == bytes(64) and picture[2 * 32 : 2 * 32 + 2] == b"\0\0"
    assert min(picture[2 * 32 + 2 : 2 * 32 + 30]) >= 100
    assert dataset.cache.built_by_this_run and dataset.broken_count == 0
    plain = load_images(images_spec(root, "mnist", (1, 28, 28), own_validation=False))
    assert plain.row_count == 40 and plain.validation_from is None


def test_cifar10_planes_keep_their_order(tmp_path: Path) -> None:
    root = write_cifar10(tmp_path / "c")
    names = tuple("abcdefghij")
    dataset = load_images(images_spec(root, "cifar10", (3, 32, 32), classes=names))
    assert dataset.row_count == 30 and dataset.validation_from == 20
    row = bytes(dataset.features[3 * 3072 : 4 * 3072])
    assert row == b"\x0a" * 1024 + b"\x14" * 1024 + b"\x4b" * 1024


def test_labels_out_of_range_are_refused(tmp_path: Path) -> None:
    root = write_cifar10(tmp_path / "c", label=12)
    with pytest.raises(DataError, match=r"data_batch_1.bin, image 0: label 12 is not below 10"):
        load_images(images_spec(root, "cifar10", (3, 32, 32), classes=tuple("abcdefghij")))


def test_nearest_neighbour_takes_the_middle_of_each_cell() -> None:
    picture = bytes(range(16))
    assert make_fit((1, 4, 4), (1, 2, 2), "nearest")(picture) == bytes([5, 7, 13, 15])
    doubled = make_fit((1, 2, 2), (1, 4, 4), "nearest")(b"\1\2\3\4")
    assert doubled == bytes([1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4])
    with pytest.raises(DataError, match=r"have 1 channel\(s\), the model takes 3"):
        make_fit((1, 2, 2), (3, 2, 2), "nearest")


def test_a_folder_is_decoded_and_its_broken_files_told(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    root = write_folder(tmp_path / "f", 5)
    whole = (root / "dark" / "1.png").read_bytes()
    (root / "dark" / "1.png").write_bytes(whole[:45])
    (root / "light" / "empty.jpg").write_bytes(b"")
    (root / "light" / "readme.txt").write_text("no image")
    dataset = load_images(images_spec(root, "folder", (3, 8, 10)))
    assert list(dataset.labels) == [0] * 4 + [1] * 5
    assert dataset.broken_count == 2
    broken = [os.path.basename(entry.file) for entry in dataset.broken]
    assert broken == ["1.png", "empty.jpg"]
    first = bytes(dataset.features[:240])
    assert first == b"\x28" * 240
    last = bytes(dataset.features[-240:])
    assert last == b"\xc8" * 80 + b"\xcc" * 80 + b"\xc8" * 80
    again = load_images(images_spec(root, "folder", (3, 8, 10)))
    assert not again.cache.built_by_this_run
    assert again.broken == dataset.broken
    grey = load_images(images_spec(root, "folder", (1, 8, 10)))
    assert grey.cache.built_by_this_run and grey.feature_count == 80


def test_a_changed_folder_has_another_cache(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    root = write_folder(tmp_path / "f")
    before = load_images(images_spec(root, "folder", (1, 4, 4)))
    (root / "light" / "3.png").unlink()
    after = load_images(images_spec(root, "folder", (1, 4, 4)))
    assert (before.row_count, after.row_count) == (8, 7)


def test_without_pillow_the_command_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    root = write_folder(tmp_path / "f")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match=r"install it: .* -m pip install pillow"):
        load_images(images_spec(root, "folder", (1, 4, 4)))


def test_folders_inside_a_class_are_read_each_once(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    root = write_folder(tmp_path / "f", per_class=2)
    write_png(root / "dark" / "deep" / "er" / "x.png", 6, 6, (9,))
    (root / "dark" / "deep" / "back").symlink_to(root / "dark")
    dataset = load_images(images_spec(root, "folder", (1, 4, 4)), with_files=True)
    assert list(dataset.labels) == [0, 0, 0, 1, 1]
    assert [os.path.relpath(path, root) for path in dataset.files][:3] == [
        "dark/0.png",
        "dark/1.png",
        "dark/deep/er/x.png",
    ]


def test_a_manifest_gives_its_rows_and_a_file_that_is_gone_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="needs Pillow")
    root = write_folder(tmp_path / "f", per_class=3)
    subset = tmp_path / "s"
    subset.mkdir()
    (subset / "subset.json").write_text(json.dumps({"folder": str(root)}))
    rows = [("light/2.png", 1, "val"), ("dark/1.png", 0, "train"), ("light/0.png", 1, "train"),
            ("dark/7.png", 0, "train")]  # fmt: skip
    (subset / "manifest.jsonl").write_text(
        "".join(json.dumps({"path": p, "label": n, "split": s}) + "\n" for p, n, s in rows)
    )
    spec = images_spec(subset, "subset", (1, 4, 4), resize="fit", own_validation=True)
    dataset = load_images(spec, with_files=True)
    assert list(dataset.labels) == [0, 1, 1] and dataset.validation_from == 2
    assert dataset.broken_count == 1
    assert dataset.broken[0].file == str(root / "dark" / "7.png")
    assert dataset.files[-1] == str(root / "light" / "2.png")
    # The same files in the same order, divided otherwise, are another cache.
    lines = (subset / "manifest.jsonl").read_text().splitlines(keepends=True)
    rows = [json.loads(line) for line in (*lines[1:], lines[0])]
    rows[2]["split"] = "val"
    (subset / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert load_images(spec).validation_from == 2 and load_images(spec).row_count == 3
    (subset / "manifest.jsonl").write_text("nonsense\n")
    with pytest.raises(DataError, match=r"manifest\.jsonl, line 1"):
        load_images(spec)
