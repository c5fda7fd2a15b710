"""Tiny data sets written by hand, in the forms that people have them in."""

import gzip
import random
import struct
import zlib
from pathlib import Path


def write_png(path: Path, width: int, height: int, colour: tuple[int, ...]) -> None:
    """A PNG of one colour: grey with one value, RGB with three."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    kind = {1: 0, 3: 2, 4: 6}[len(colour)]
    lines = (b"\0" + bytes(colour) * width) * height
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def write_folder(root: Path, per_class: int = 4, classes: tuple[str, ...] = ("dark", "light")):
    """An image folder: each class has its own brightness, each image its own size."""
    for number, name in enumerate(classes):
        for index in range(per_class):
            level = 40 + 160 * number // max(1, len(classes) - 1)
            size, colour = 12 + index, (level, level + index % 50, level)
            write_png(root / name / f"{index}.png", size, size + 2, colour)
    return root


def write_mnist(root: Path, rows: int = 40, test_rows: int = 8, *, compress: bool = True) -> Path:
    """Digits 28×28 whose brightness tells the class; classes 0 and 1 alone."""
    root.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    for prefix, count in (("train", rows), ("t10k", test_rows)):
        labels = bytes(number % 2 for number in range(count))
        pixels = b"".join(
            bytes(chance.randrange(100 * label, 100 * label + 100) for _ in range(784))
            for label in labels
        )
        files = {
            f"{prefix}-images-idx3-ubyte": struct.pack(">IIII", 0x803, count, 28, 28) + pixels,
            f"{prefix}-labels-idx1-ubyte": struct.pack(">II", 0x801, count) + labels,
        }
        for name, content in files.items():
            if compress:
                (root / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (root / name).write_bytes(content)
    return root


def write_cifar10(root: Path, per_batch: int = 10, batches: int = 2, label: int | None = None):
    """Batches of records: a label and three planes of 32×32."""
    root.mkdir(parents=True, exist_ok=True)
    names = [f"data_batch_{number}.bin" for number in range(1, batches + 1)]
    for name in (*names, "test_batch.bin"):
        records = b"".join(
            bytes([number % 10 if label is None else label])
            + bytes([10]) * 1024
            + bytes([20]) * 1024
            + bytes([25 * (number % 10)]) * 1024
            for number in range(per_batch)
        )
        (root / name).write_bytes(records)
    return root


def npy_bytes(
    dtype: str, shape: tuple[int, ...], content: bytes, *, fortran: bool = False
) -> bytes:
    """An npy file of version 1."""
    header = f"{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}"
    padded = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded.encode() + content


def write_npy(
    root: Path, dtype: str, shape: tuple[int, ...], content: bytes, labels: list[int] | None
) -> Path:
    """features.npy, and labels.npy where there are labels."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "features.npy").write_bytes(npy_bytes(dtype, shape, content))
    if labels is not None:
        values = struct.pack(f"<{len(labels)}i", *labels)
        (root / "labels.npy").write_bytes(npy_bytes("<i4", (len(labels),), values))
    return root
