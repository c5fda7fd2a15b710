"""Remote data: fetched once, gone on with, checked, and brought up to date."""

import base64
import hashlib
import json
import os
import sys

import pytest

from data_samples import write_folder, write_mnist
from trainload.errors import WorkloadError
from trainload.workload import assemble_workload
from trainload.workload.data.remote import fetch_remote, is_address

fsspec = pytest.importorskip("fsspec", reason="needs fsspec")


@pytest.fixture
def memory():
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    yield filesystem
    filesystem.store.clear()


def log_of(copy):
    lines = (copy.parent / "fetched.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_folder_is_fetched_once_and_then_kept(tmp_path):
    source = write_folder(tmp_path / "source")
    address = f"file://{source}"
    copy = fetch_remote(address, tmp_path / "cache")
    for path in source.rglob("*.png"):
        assert (copy / path.relative_to(source)).read_bytes() == path.read_bytes()
    assert len(log_of(copy)) == 8
    fetch_remote(address, tmp_path / "cache")
    assert len(log_of(copy)) == 8


def test_a_changed_file_is_fetched_again_and_a_gone_one_removed(tmp_path, memory):
    memory.pipe("/set/a/1.txt", b"one")
    memory.pipe("/set/b/2.txt", b"two")
    copy = fetch_remote("memory://set", tmp_path)
    memory.pipe("/set/a/1.txt", b"another")
    memory.rm("/set/b/2.txt")
    assert fetch_remote("memory://set", tmp_path) == copy
    assert (copy / "a" / "1.txt").read_bytes() == b"another"
    assert not (copy / "b" / "2.txt").exists()


def test_damage_is_found_and_mended(tmp_path, memory):
    memory.pipe("/set/1.bin", b"right")
    copy = fetch_remote("memory://set", tmp_path)
    (copy / "1.bin").write_bytes(b"wrong")
    os.utime(copy / "1.bin", ns=(1, 1))
    fetch_remote("memory://set", tmp_path)
    assert (copy / "1.bin").read_bytes() == b"right"


def test_an_interrupted_file_is_gone_on_with(tmp_path, memory, monkeypatch):
    content = bytes(range(256)) * 50
    memory.pipe("/set/1.bin", content)
    read = []

    class Breaking:
        def __init__(self, inner, after):
            self.inner, self.after = inner, after

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.inner.close()

        def seek(self, place):
            read.append(place)
            self.inner.seek(place)

        def read(self, _):
            block = self.inner.read(1000)
            if self.after is not None and self.inner.tell() > self.after:
                raise ConnectionError("the line is dead")
            return block

    original = type(memory).open
    breaks = [5000, None]
    monkeypatch.setattr(
        type(memory),
        "open",
        lambda self, *a, **k: Breaking(original(self, *a, **k), breaks.pop(0)),
    )
    with pytest.raises(WorkloadError, match="the line is dead; run again to go on"):
        fetch_remote("memory://set", tmp_path)
    copy = fetch_remote("memory://set", tmp_path)
    assert (copy / "1.bin").read_bytes() == content
    assert read == [0, 5000]
    assert sorted(path.name for path in copy.iterdir()) == ["1.bin"]


def test_a_source_that_cannot_seek_is_fetched_anew(tmp_path, memory, monkeypatch):
    memory.pipe("/set/1.bin", b"0123456789")
    original, breaks = type(memory).open, [True, False]

    class Stream:
        def __init__(self, inner):
            self.inner, self.broken = inner, breaks.pop(0)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.inner.close()

        def seek(self, place):
            if place:
                raise ValueError("Cannot seek streaming HTTP file")

        def read(self, _):
            if self.broken and self.inner.tell():
                raise ConnectionError("the line is dead")
            return self.inner.read(4)

    monkeypatch.setattr(type(memory), "open", lambda self, *a, **k: Stream(original(self, *a, **k)))
    with pytest.raises(WorkloadError, match="the line is dead"):
        fetch_remote("memory://set", tmp_path)
    copy = fetch_remote("memory://set", tmp_path)
    assert (copy / "1.bin").read_bytes() == b"0123456789"


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"size": 6}, "1.bin gave 5 bytes, its listing says 6 bytes; run again"),
        ({"size": None}, "the size of 1.bin is not told"),
        ({"md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}, "gave other bytes than its MD5 says"),
    ],
)
def test_a_copy_that_is_not_what_was_listed_is_refused(
    tmp_path, memory, monkeypatch, told, complaint
):
    memory.pipe("/set/1.bin", b"right")
    find = type(memory).find
    changed = {**told}

    def listing(self, *arguments, **options):
        found = find(self, *arguments, **options)
        return {path: {**info, **changed} for path, info in found.items()}

    monkeypatch.setattr(type(memory), "find", listing)
    with pytest.raises(WorkloadError, match=complaint):
        fetch_remote("memory://set", tmp_path)
    assert not list(tmp_path.rglob("1.bin*.part"))
    changed.clear()
    changed["md5Hash"] = base64.b64encode(hashlib.md5(b"right").digest()).decode()
    changed["size"] = 5
    assert (fetch_remote("memory://set", tmp_path) / "1.bin").read_bytes() == b"right"


def test_progress_is_told(tmp_path, memory):
    memory.pipe("/set/1.bin", b"123")
    memory.pipe("/set/2.bin", b"4567")
    seen = []
    fetch_remote("memory://set", tmp_path, seen.append)
    told = [(p.files, p.fetched_bytes, p.total_bytes) for p in seen]
    assert told == [(0, 0, 7), (0, 3, 7), (1, 3, 7), (1, 7, 7)], "inside of large files too"


def test_nothing_there_and_an_unknown_protocol_are_told(tmp_path, memory):
    with pytest.raises(WorkloadError, match="nothing at memory://none"):
        fetch_remote("memory://none", tmp_path)
    with pytest.raises(WorkloadError, match="nosuch://x: "):
        fetch_remote("nosuch://x", tmp_path)


def test_without_fsspec_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(WorkloadError, match=r"pip install 'trainload\[remote\]'"):
        fetch_remote("memory://set", tmp_path)


def test_a_workload_takes_an_address(tmp_path):
    source = write_mnist(tmp_path / "source")
    for word in (f"mnist:file://{source}", f"file://{source}"):
        words = {"data": word, "cache": str(tmp_path / "cache")}
        data = assemble_workload("lenet5", words).data
        assert data.kind == "mnist" and data.address == f"file://{source}"
        assert data.path.startswith(str(tmp_path / "cache" / "remote"))


def test_a_single_file_is_fetched_by_its_name(tmp_path):
    (tmp_path / "t.csv").write_text("x,label\n1,a\n2,b\n")
    words = {"data": f"file://{tmp_path / 't.csv'}", "cache": str(tmp_path / "cache")}
    assert assemble_workload("mlp", words).data.path.endswith("t.csv")


def test_what_is_an_address():
    assert is_address("s3://bucket/x") and not is_address("/data/x") and not is_address("mnist:/x")
