"""What another machine does before trainload is there: keeps its code, and starts the bare door.

Sent as it stands, so it needs nothing but the standard library of Python 3.8 and imports nothing of
ours. `python -c` runs it over ssh; a Ray task calls `run_on_node`.
"""

import io
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from typing import BinaryIO, List, Tuple

LEAST = (3, 11)
BEAT_S = 10.0
GRACE_S = 30.0


def folder_of(digest: str) -> str:
    """Where code of that digest is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "trainload", "code", digest)


def lacking() -> str:
    """What this Python lacks to measure; empty where nothing."""
    if sys.version_info[:2] < LEAST:
        wanted, found = ".".join(map(str, LEAST)), ".".join(map(str, sys.version_info[:2]))
        return f"{sys.executable} is Python {found}, and {wanted} is needed"
    try:
        import psutil  # noqa: F401
    except ImportError:
        return f"{sys.executable} has no psutil"
    return ""


def keep_code(digest: str, packed: bytes) -> str:
    """Unpack the code once; whoever comes second finds it. Where it lies."""
    place = folder_of(digest)
    if os.path.isdir(place):
        return place
    os.makedirs(os.path.dirname(place), exist_ok=True)
    beside = tempfile.mkdtemp(prefix=".", dir=os.path.dirname(place))
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        tar.extractall(beside)  # noqa: S202 - packed by us, kept by its digest
    try:
        os.rename(beside, place)
    except OSError:
        if not os.path.isdir(place):
            raise
        import shutil

        shutil.rmtree(beside, ignore_errors=True)
    return place


def run_on_node(digest: str, packed: bytes, request: str) -> Tuple[int, bytes, str]:
    """Run one request by the bare door: exit status, what it wrote, the end of its complaints."""
    environment = dict(os.environ, PYTHONPATH=keep_code(digest, packed))
    # The node is the run's alone, and its setting names accelerators by their own numbers.
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    environment.pop("OMP_NUM_THREADS", None)
    door = subprocess.Popen(
        [sys.executable, "-m", "trainload.run", "--request", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    told, said, err = door.stdin, door.stdout, door.stderr
    assert told is not None and said is not None and err is not None, "all three are pipes"
    over = threading.Event()
    beating = threading.Thread(target=beat, args=(told, over), daemon=True)
    complaints: List[bytes] = []
    reading = threading.Thread(target=lambda: complaints.append(err.read()), daemon=True)
    try:
        told.write(request.encode("utf-8") + b"\n")
        told.flush()
        beating.start()
        reading.start()
        answer = said.read()
        status = door.wait()
    except BaseException:
        door.send_signal(signal.SIGINT)
        try:
            door.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            door.kill()
        raise
    finally:
        over.set()
    reading.join(1.0)
    return status, answer, b"".join(complaints)[-2000:].decode("utf-8", "replace")


def beat(stream: BinaryIO, over: threading.Event, every_s: float = BEAT_S) -> None:
    """Say to the door now and then that somebody is still waiting for it."""
    try:
        while not over.wait(every_s):
            stream.write(b"\n")
            stream.flush()
    except (OSError, ValueError):
        pass  # it has ended


def main(words: List[str]) -> int:
    """`ask DIGEST` says where the code lies or what lacks; `keep DIGEST` takes it from stdin."""
    verb, digest = words
    wrong = lacking()
    if wrong:
        sys.stdout.write("lacks " + wrong + "\n")
    elif verb == "keep":
        sys.stdout.write("has " + keep_code(digest, sys.stdin.buffer.read()) + "\n")
    elif os.path.isdir(folder_of(digest)):
        sys.stdout.write("has " + folder_of(digest) + "\n")
    else:
        sys.stdout.write("wants\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
