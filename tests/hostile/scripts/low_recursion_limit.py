# Leaves Python little depth.
import sys

sys.setrecursionlimit(40)
print("done")
