"""Files written whole or not at all, and descriptors that stay ours; knows no file's meaning."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path, *, sync: bool = False) -> Iterator[BinaryIO]:
    """A new file beside `path` that takes its place when the block ends well.

    Nothing is left of it where the block raises or the disk refuses (OSError). Its name is random
    and must be new, so that nobody's link is followed. `sync` waits until the disk has it.
    """
    beside = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Put `data` in the place of a file; OSError leaves what was there."""
    with replacing(path, sync=sync) as file:
        file.write(data)


class OwnDescriptor:
    """A descriptor in a process that is not ours alone.

    The program around may close it, or have another file under its number: `fd` is then None, and
    nothing is written there or closed.
    """

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._file = _identity(fd)

    @property
    def fd(self) -> int | None:
        """The number while it means what it meant; None from then on."""
        if self._fd is not None:
            try:
                if _identity(self._fd) != self._file:
                    self._fd = None
            except OSError:
                self._fd = None
        return self._fd

    def close(self) -> None:
        """Give it back; harmless when called twice or when it is another's by now."""
        fd, self._fd = self.fd, None
        if fd is not None:
            os.close(fd)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
