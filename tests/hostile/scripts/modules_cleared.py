# Forgets every module it can.
import sys

print("done")
for name in [name for name in sys.modules if name not in ("sys", "builtins", "__main__")]:
    del sys.modules[name]
sys.path.clear()
