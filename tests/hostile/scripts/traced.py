# Has a trace function that fails everywhere but in its own file.
import sys


def trace(frame, event, _argument):
    if frame.f_code.co_filename != __file__:
        raise RuntimeError("traced")
    return trace


sys.settrace(trace)
print("done") if True else None
