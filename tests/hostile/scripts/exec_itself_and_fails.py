# Becomes itself anew once and fails then.
import os
import sys

if "again" not in sys.argv:
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
sys.exit(7)
