# Ends by sys.exit(2.5), which is words and status 1.
import sys

sys.exit(2.5)
