# Shows its failures in its own way.
import sys

sys.excepthook = lambda kind, error, trace: print("mine:", kind.__name__, error)
raise ValueError("shown otherwise")
