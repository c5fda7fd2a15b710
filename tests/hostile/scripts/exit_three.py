# Ends by sys.exit(3).
import sys

print("before")
sys.exit(3)
