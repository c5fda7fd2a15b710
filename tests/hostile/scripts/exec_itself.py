# Becomes itself anew once, as reloaders do.
import os
import sys

if "again" not in sys.argv:
    print("first", flush=True)
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
print("second")
