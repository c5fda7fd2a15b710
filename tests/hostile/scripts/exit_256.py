# Ends by sys.exit(256), of which the system keeps 0.
import sys

sys.exit(256)
