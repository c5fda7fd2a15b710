# Leaves its session and its group.
import os

try:
    os.setsid()
except OSError:
    os.setpgid(0, 0)
print("alone")
