# Ends by os._exit(0), which runs no Python any more.
import os
import sys

print("before")
sys.stdout.flush()
os._exit(0)
