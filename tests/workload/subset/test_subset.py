"""Balanced subsets: zones, draws and balance as properties; folders with all that goes wrong."""

import json
import os
import random
import socket
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainload.errors import UsageError, WorkloadError
from trainload.workload.subset import files as subset_files
from trainload.workload.subset import scan as subset_scan
from trainload.workload.subset.choose import SubsetRequest, choose_subset
from trainload.workload.subset.draw import (
    ZONES,
    draw_images,
    draw_names,
    hold_out,
    measure_sizes,
    sort_into_zones,
)
from trainload.workload.subset.files import MANIFEST, SUMMARY, check_place, save_subset
from trainload.workload.subset.scan import LISTED, Scanner, list_classes, looks_like_image
from trainload.workload.subset.summary import summarise_subset

JPEG = b"\xff\xd8\xff\xe0"
CLASSES = st.lists(
    st.lists(st.integers(1, 60) | st.integers(1, 10**7), min_size=1, max_size=40),
    min_size=1,
    max_size=5,
).map(lambda classes: [array("q", sizes) for sizes in classes])

GOLDEN_NAMES = ["b", "d", "e", "c", "a"]
GOLDEN_DRAWS = [("B", [49, 3]), ("D", [10, 0]), ("A", [15, 17]), ("D", [41, 46]), ("B", [46, 8])]
GOLDEN_HELD = [1, 2]


def drawn(classes, per_class=None, seed=0):
    statistics = measure_sizes(classes)
    zoned = sort_into_zones(classes, statistics)
    draws = draw_images(classes, statistics, zoned, per_class=per_class, seed=seed)
    return statistics, zoned, draws


def write_image(path, size=100, start=JPEG):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


@pytest.fixture
def photos(tmp_path):
    chance = random.Random(7)
    for name in ("cat", "dog", "élan vital"):
        for number in range(30):
            write_image(tmp_path / "photos" / name / f"{number}.jpg", chance.randrange(50, 900))
    return tmp_path / "photos"


def chosen(folder, **options):
    return choose_subset(SubsetRequest(folder=folder, **options))


@given(CLASSES, st.integers(0, 9))
def test_every_draw_takes_one_new_image_of_each_class_from_one_zone(classes, seed):
    statistics, zoned, draws = drawn(classes, seed=seed)
    for label, sizes in enumerate(classes):
        taken = [draw.images[label] for draw in draws]
        assert len(set(taken)) == len(taken)
        assert all(statistics.zone(sizes[n]) == d.zone for n, d in zip(taken, draws, strict=True))
    for zone in ZONES:
        least = min(len(pools[zone]) for pools in zoned)
        assert sum(draw.zone == zone for draw in draws) <= least


@given(CLASSES, st.integers(0, 9), st.integers(1, 20) | st.none())
def test_the_balance_never_exceeds_one_image_a_class(classes, seed, per_class):
    statistics, _, draws = drawn(classes, per_class, seed)
    balance = 0
    largest_image = max(
        (
            abs(statistics.deviation(sizes[draw.images[label]]))
            for draw in draws
            for label, sizes in enumerate(classes)
        ),
        default=0,
    )
    for draw in draws:
        assert not balance or draw.zone in ("CD" if balance > 0 else "AB")
        balance += draw.deviation
        assert abs(balance) <= len(classes) * largest_image
        assert abs(balance) <= len(classes) * 2 * statistics.variance**0.5 * (1 + 1e-12)


@given(CLASSES, st.integers(0, 9))
def test_zones_are_those_of_the_study(classes, seed):
    statistics = measure_sizes(classes)
    mean, sigma = statistics.mean_bytes, statistics.deviation_bytes
    for size in {size for sizes in classes for size in sizes}:
        ends = (mean - 2 * sigma, mean - sigma, mean, mean + sigma, mean + 2 * sigma)
        if sigma and min(abs(size - end) for end in ends) > 1e-6 * mean:  # else floats cannot tell
            at = sum(size >= end for end in ends)
            assert statistics.zone(size) == (None, "D", "C", "B", "A", None)[at]


def test_zone_ends_are_exact():
    statistics = measure_sizes([array("q", [10, 30])])
    assert (statistics.mean_bytes, statistics.deviation_bytes) == (20, 10)
    ends = {0: "D", 9: "D", 10: "C", 19: "C", 20: "B", 29: "B", 30: "A", 39: "A", 40: None}
    assert {size: statistics.zone(size) for size in ends} == ends


@given(CLASSES, st.integers(0, 9), st.integers(1, 40))
def test_fewer_images_are_a_beginning_of_more(classes, seed, fewer):
    draws = drawn(classes, seed=seed)[2]
    part = drawn(classes, fewer, seed)[2]
    assert len(part) == min(fewer, len(draws))
    assert part[:-1] == draws[: len(part) - 1]


@pytest.mark.parametrize("seed", range(5))
def test_with_images_to_choose_from_the_balance_ends_below_one_image(seed):
    chance = random.Random(seed)
    classes = [
        array("q", (int(chance.lognormvariate(11, 0.5)) for _ in range(300))) for _ in range(10)
    ]
    statistics, _, draws = drawn(classes, 100, seed)
    assert len(draws) == 100
    balance_bytes = abs(sum(draw.deviation for draw in draws)) / statistics.count
    assert balance_bytes < 0.05 * statistics.deviation_bytes


@given(CLASSES, st.integers(0, 9), st.floats(0, 0.99))
def test_validation_takes_whole_draws(classes, seed, fraction):
    draws = drawn(classes, seed=seed)[2]
    held = hold_out(draws, fraction, seed)
    assert held <= set(range(len(draws))) and held == hold_out(draws, fraction, seed)
    if len(draws) > 1:
        assert abs(len(held) - len(draws) * fraction) <= 1 and len(held) < len(draws)
        assert bool(held) == (fraction > 0)


def test_the_seed_gives_what_it_always_gave():
    """Fixed for ever: a later change of the draws would change everyone's subsets."""
    assert draw_names(["a", "b", "c", "d", "e"], 3) == GOLDEN_NAMES
    classes = [array("q", [(i * k) % 97 + 20 for i in range(50)]) for k in (31, 57)]
    draws = drawn(classes, 5, seed=11)[2]
    assert [(draw.zone, list(draw.images)) for draw in draws] == GOLDEN_DRAWS
    assert sorted(hold_out(draws, 0.4, 11)) == GOLDEN_HELD


def test_a_subset_is_a_subset_alike_in_every_class(photos):
    rows = list(chosen(photos, per_class=10).rows())
    assert len({row["path"] for row in rows}) == len(rows) == 30
    for row in rows:
        file = photos / row["path"]
        assert file.stat().st_size == row["bytes"] and file.parent.name == row["class"]
    counts = {
        name: sorted((r["zone"], r["split"], r["draw"]) for r in rows if r["class"] == name)
        for name in ("cat", "dog", "élan vital")
    }
    assert counts["cat"] == counts["dog"] == counts["élan vital"]
    assert sum(row["split"] == "val" for row in rows) == 6


def test_the_order_of_the_directory_does_not_matter(photos, monkeypatch):
    expected = list(chosen(photos, class_count=2, per_class=9, seed=5).rows())
    assert list(chosen(photos, class_count=2, per_class=9, seed=5).rows()) == expected
    assert list(chosen(photos, class_count=2, per_class=9, seed=6).rows()) != expected
    listdir, scandir = os.listdir, os.scandir

    class Backwards:
        def __init__(self, path):
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(
        subset_scan.os, "listdir", lambda p: random.Random(1).sample(x := listdir(p), len(x))
    )
    monkeypatch.setattr(subset_scan.os, "scandir", Backwards)
    assert list(chosen(photos, class_count=2, per_class=9, seed=5).rows()) == expected


def test_too_few_images_say_how_many_there_can_be(photos):
    with pytest.raises(
        WorkloadError, match=r"images a class are possible with seed 4, not 31"
    ) as e:
        chosen(photos, per_class=31, seed=4)
    possible = int(str(e.value).split()[0])
    assert f"--per-class {possible} or fewer" in str(e.value) and "in class '" in str(e.value)
    assert chosen(photos, per_class=possible, seed=4).per_class == possible
    assert chosen(photos, seed=4).per_class == possible
    with pytest.raises(WorkloadError, match=f"{possible} images a class are possible"):
        chosen(photos, per_class=possible + 1, seed=4)


def test_classes_without_a_common_zone_are_named(tmp_path):
    for number in range(5):
        write_image(tmp_path / "small" / f"{number}.png", 10 + number)
        write_image(tmp_path / "large" / f"{number}.png", 9000 + number)
    with pytest.raises(WorkloadError, match="no zone of file sizes holds an image of every class"):
        chosen(tmp_path)


def test_sizes_all_alike_are_balanced_in_any_draw(tmp_path):
    for name in "ab":
        for number in range(4 if name == "a" else 6):
            write_image(tmp_path / name / f"{number}.bmp", 77, b"BM")
    subset = chosen(tmp_path, validation_fraction=0.25)
    summary = summarise_subset(subset)
    assert subset.per_class == 4 and summary["validation_per_class"] == 1
    assert {row["zone"] for row in subset.rows()} == {"B"} and summary["balance_bytes"] == 0
    assert "same size, 77 bytes" in subset.notes[0]
    with pytest.raises(WorkloadError, match=r"4 images a class are possible with seed 0, not 5"):
        chosen(tmp_path, per_class=5)


def test_one_class_and_one_image(tmp_path):
    write_image(tmp_path / "only" / "one.gif", 20, b"GIF89a")
    subset = chosen(tmp_path)
    assert [row["split"] for row in subset.rows()] == ["train"]
    assert any("one class" in note for note in subset.notes)
    assert any("none for validation" in note for note in subset.notes)


def test_what_is_no_image_is_reported_and_skipped(photos, monkeypatch):
    cat = photos / "cat"
    (cat / "empty.jpg").touch()
    (cat / "words.jpg").write_text("not an image at all")
    (cat / "notes.txt").write_text("x")
    (cat / "gone.jpg").symlink_to(cat / "nowhere.jpg")
    (cat / "loop.jpg").symlink_to("loop.jpg")
    (cat / "folder.jpg").mkdir()
    os.mkfifo(cat / "pipe.jpg")
    (cat / ".hidden.jpg").write_text("x")
    (cat / "locked.jpg").write_bytes(JPEG)
    real = os.open

    def locked(path, *rest):  # root may read all: the mode alone would not refuse
        if path.endswith(b"locked.jpg"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)

    monkeypatch.setattr(subset_scan.os, "open", locked)
    subset = chosen(photos)
    assert subset.statistics.count == 90
    assert dict(subset.skipped.counts) == {
        "empty": 1,
        "no image by its first bytes": 1,
        "no image by its name": 1,
        "link to nothing": 1,
        "unreadable: Too many levels of symbolic links": 1,
        "no plain file": 2,
        "unreadable: Permission denied": 1,
    }
    assert (str(cat / "notes.txt"), "no image by its name") in subset.skipped.listed
    assert summarise_subset(subset)["skipped"]["empty"] == 1


def test_a_socket_is_no_image(photos):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(photos / "s.jpg"))
        os.rename(photos / "s.jpg", photos / "cat" / "s.jpg")
        assert chosen(photos).skipped.counts == {"no plain file": 1}


def test_many_skipped_files_are_counted_and_some_named(photos):
    for number in range(LISTED + 5):
        (photos / "dog" / f"{number}.txt").touch()
    skipped = chosen(photos).skipped
    assert sum(skipped.counts.values()) == LISTED + 5 and len(skipped.listed) == LISTED


def test_nested_folders_links_and_odd_names(tmp_path):
    real = tmp_path / "elsewhere"
    names = ["a b.jpg", "日本.JPG", "new\nline.jpeg", 'quote".png', "deep/er/x.webp"]
    for number, name in enumerate(names):
        start = b"RIFF0000WEBP" if name.endswith("webp") else JPEG
        write_image(real / name, 100 + number, start)
    with open(os.fsencode(real) + b"/bad\xff.jpg", "wb") as file:
        file.write(JPEG * 26)
    (real / "deep" / "up").symlink_to(real)
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "linked class").symlink_to(real)
    one = Scanner(folder).read_class("linked class")
    assert sorted(map(os.fsdecode, one.paths())) == sorted([*names, "bad\udcff.jpg"])
    subset = chosen(folder, validation_fraction=0)
    out = tmp_path / "out"
    save_subset(subset, summarise_subset(subset), out, link=True, force=False)
    rows = [json.loads(line) for line in (out / MANIFEST).read_bytes().splitlines()]
    assert len(rows) == subset.per_class > 2
    for row in rows:
        link = os.fsencode(out / "train" / row["path"])
        assert os.path.samefile(link, os.fsencode(folder / row["path"]))


def test_empty_class_folders_are_drawn_again_or_left_out(photos):
    for name in ("aaa", "zzz", "mmm"):
        (photos / name).mkdir()
    everything = chosen(photos)
    assert len(everything.classes) == 3 and "3 class folders ('aaa'" in everything.notes[0]
    for seed in range(6):
        assert len(chosen(photos, class_count=3, seed=seed).classes) == 3
    with pytest.raises(WorkloadError, match=r"3 of the 6 classes in .* hold images"):
        chosen(photos, class_count=4)
    with pytest.raises(WorkloadError, match=r"class 'aaa' in .* holds no images; leave it out"):
        chosen(photos, class_names=("cat", "aaa"))
    (photos / "aaa" / "notes.txt").touch()
    with pytest.raises(WorkloadError, match="holds no images, only 1 files that are none"):
        chosen(photos, class_names=("cat", "aaa"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"class_names": ("cta",)}, "no class 'cta' in .*; did you mean 'cat'"),
        ({"class_count": 9}, "holds 3 classes, not 9"),
    ],
)
def test_wrong_classes(photos, options, words):
    with pytest.raises(WorkloadError, match=words):
        chosen(photos, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"class_count": 1, "class_names": ("cat",)},
        {"class_names": ("cat", "cat")},
        {"validation_fraction": 1.0},
        {"validation_fraction": float("nan")},
        {"validation_fraction": -0.1},
    ],
)
def test_requests_that_cannot_be_meant(options):
    with pytest.raises(UsageError):
        SubsetRequest(folder=Path(), **options)


def test_folders_that_hold_no_classes(tmp_path, photos):
    with pytest.raises(WorkloadError, match="no such folder"):
        list_classes(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(WorkloadError, match="is no folder"):
        list_classes(tmp_path / "file")
    with pytest.raises(WorkloadError, match="holds no class folders"):
        list_classes(photos / "cat")
    (tmp_path / "set").mkdir()
    photos.rename(tmp_path / "set" / "train")
    (tmp_path / "set" / "val").mkdir()
    with pytest.raises(WorkloadError, match=r"holds train, val and not classes; give .*set/train"):
        list_classes(tmp_path / "set")
    (tmp_path / "none" / "a").mkdir(parents=True)
    with pytest.raises(WorkloadError, match=r"no class in .* holds an image; give one"):
        chosen(tmp_path / "none")


def test_magic_of_every_kind():
    starts = [JPEG, b"\x89PNG\r\n\x1a\n", b"GIF87a", b"BM", b"II*\0", b"MM\0*", b"P6 1 1 255 "]
    assert all(looks_like_image(start) for start in starts)
    assert not any(map(looks_like_image, [b"", b"\xff\xd8", b"RIFF0000WAVE", b"<svg", b"P9"]))


def test_the_figures_of_the_summary(photos):
    subset = chosen(photos, per_class=10)
    summary = summarise_subset(subset)
    rows = list(subset.rows())
    zones = {zone["zone"]: zone for zone in summary["zones"]}
    assert sum(zone["images_before"] for zone in zones.values()) == 90
    mean = summary["mean_bytes"]
    for zone in ZONES:
        mine = [row["bytes"] for row in rows if row["zone"] == zone]
        assert zones[zone]["images"] == len(mine) == 3 * zones[zone]["per_class"]
        assert zones[zone]["balance_bytes"] == pytest.approx(sum(mine) - mean * len(mine))
    assert summary["balance_bytes"] == pytest.approx(
        summary["train_balance_bytes"] + summary["validation_balance_bytes"]
    )
    assert summary["balance_bytes"] == pytest.approx(
        sum(row["bytes"] for row in rows) - mean * len(rows), abs=1e-6
    )
    assert sum(zone["balance_before_bytes"] for zone in zones.values()) == pytest.approx(
        0, abs=1e-6
    )


def save(photos, out, *, link=False, force=False, **options):
    subset = chosen(photos, **{"per_class": 4, **options})
    return save_subset(subset, summarise_subset(subset), out, link=link, force=force)


def test_what_stands_there_is_never_lost(photos, tmp_path):
    out = tmp_path / "deep" / "out"
    assert save(photos, out) is None
    first = (out / MANIFEST).read_bytes()
    (out / "mine.txt").write_text("precious")
    with pytest.raises(WorkloadError, match="exists; choose another --out, or --force"):
        save(photos, out, seed=1)
    assert (out / MANIFEST).read_bytes() == first
    assert save(photos, out, seed=1, force=True) == out.with_name("out.old1")
    assert save(photos, out, seed=1, force=True) == out.with_name("out.old2")
    assert (out.with_name("out.old1") / "mine.txt").read_text() == "precious"
    assert sorted(p.name for p in out.iterdir()) == [MANIFEST, SUMMARY]
    assert (out / MANIFEST).read_bytes() != first


def test_an_empty_folder_is_filled_and_a_file_is_not_overwritten(photos, tmp_path):
    (tmp_path / "empty").mkdir()
    save(photos, tmp_path / "empty")
    assert (tmp_path / "empty" / MANIFEST).exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkloadError, match="exists"):
        save(photos, tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WorkloadError, match="exists"):
        save(photos, tmp_path / "link")


def test_places_that_would_harm_the_images(photos, tmp_path):
    (tmp_path / "way").symlink_to(photos)
    for out in (photos, photos / "sub", tmp_path, tmp_path / "way", tmp_path / "way" / "x"):
        with pytest.raises(UsageError, match="choose another --out"):
            check_place(photos, out, force=True)
    with pytest.raises(WorkloadError, match="takes no new files"):
        check_place(photos, Path("/dev/null/x"), force=False)
    with pytest.raises(WorkloadError, match=r"cannot write .*: File name too long"):
        check_place(photos, tmp_path / ("x" * 300), force=True)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("stop", ["symlink_to", "rename"])
def test_an_interruption_leaves_what_was_there(photos, tmp_path, monkeypatch, stop, force):
    out = tmp_path / "out"
    if force:
        save(photos, out)
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))
    real, calls = getattr(Path, stop), []

    def interrupted(self, *arguments):
        calls.append(self)
        if len(calls) == (5 if stop == "symlink_to" else 1 + force):
            raise KeyboardInterrupt
        return real(self, *arguments)

    monkeypatch.setattr(subset_files.Path, stop, interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(photos, out, link=True, force=force, seed=2)
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before


def test_a_file_system_without_links_is_said(photos, tmp_path, monkeypatch):
    def refused(self, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(subset_files.Path, "symlink_to", refused)
    with pytest.raises(WorkloadError, match=r"cannot make links .* use --manifest-only"):
        save(photos, tmp_path / "out", link=True)
    assert [p.name for p in tmp_path.iterdir()] == ["photos"]


def test_progress_counts_files(photos, monkeypatch):
    told = []
    monkeypatch.setattr(subset_scan.time, "monotonic", iter(range(1, 99)).__next__)
    choose_subset(SubsetRequest(folder=photos), told.append)
    assert told == [64]
