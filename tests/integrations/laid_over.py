"""Prints where the packages of a framework's environment stand; nothing where they are of no use.

`python laid_over.py FRAMEWORK`: another environment of the same Python can be laid over that one,
so that what is there already need not be fetched again.
"""

import importlib.util
import subprocess
import sys

from trainload.run import find_environment

WHERE = "import sys, sysconfig; print(*sys.version_info[:2], sysconfig.get_path('purelib'))"


def main(framework):
    python = sys.executable
    if importlib.util.find_spec(framework) is None:
        found = find_environment(framework)
        if found.problem is not None or found.python is None:
            return
        python = found.python
    told = subprocess.run([python, "-c", WHERE], capture_output=True, text=True, check=True)
    major, minor, place = told.stdout.strip().split(" ", 2)
    if (int(major), int(minor)) == sys.version_info[:2]:
        sys.stdout.write(f"{place}\n")


main(sys.argv[1])
