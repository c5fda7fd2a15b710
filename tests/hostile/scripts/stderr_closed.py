# Closes its standard error and fails.
import sys

sys.stderr.close()
raise ValueError("nobody will read this")
