# Puts functions of its own in the place of the system's.
import os


def fail(*_args, **_kwargs):
    raise RuntimeError("not for you")


os.write = os.open = os.fstat = os.getpid = os.close = os.getppid = fail
print("done")
