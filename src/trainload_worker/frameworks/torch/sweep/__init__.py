"""Times the kernels of a device: what is timed, how, and in which order the time is spent.

`cases` and `lanes` need no torch; `kernels`, `timers` and `dispatch` do.
"""
