# Shows its failures in a way that fails itself.
import sys


def hook(*_):
    raise RuntimeError("the hook too")


sys.excepthook = hook
raise ValueError("shown otherwise")
