# Closes its standard output and ends well.
import sys

print("last words")
sys.stdout.close()
