# Forks a child that ends by sys.exit(5), and goes on.
import os
import sys

child = os.fork()
if child == 0:
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
