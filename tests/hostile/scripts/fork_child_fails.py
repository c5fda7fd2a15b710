# Forks a child that fails with a traceback, and goes on.
import os

child = os.fork()
if child == 0:
    raise ValueError("the child's own trouble")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
