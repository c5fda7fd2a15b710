# Puts functions of its own in the place of Python's own.
import builtins


def fail(*_args, **_kwargs):
    raise RuntimeError("not for you")


print("done")
builtins.open = builtins.print = builtins.len = builtins.isinstance = fail
