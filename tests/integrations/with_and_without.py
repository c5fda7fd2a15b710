"""Runs an example without the line that records it, then with it, then without it again.

`python with_and_without.py PLAIN EXAMPLE`: fails where the training without it makes one call into
trainload, starts a process or leaves a record; only the example's own run is left behind.
"""

import runpy
import sys
import threading
from collections import Counter
from pathlib import Path

import psutil

import trainload
import trainload_worker

OURS = tuple(str(Path(part.__file__).parent) for part in (trainload, trainload_worker))


def calls_of(script):
    """How often each function of ours is called while the script's `main` runs."""
    main = runpy.run_path(script)["main"]
    calls = Counter()

    def note(frame, event, _argument):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls[frame.f_code.co_qualname] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return dict(calls)


def main(plain, example):
    before = calls_of(plain)
    assert before == {}, before
    assert not Path("runs").exists() and psutil.Process().children() == []
    recorded = runpy.run_path(example)
    recorded["main"]()
    assert len(list(Path("runs").iterdir())) >= 1
    after = calls_of(plain)
    assert after == {}, after


main(*sys.argv[1:])
