# Closes its standard output and prints after that.
import sys

sys.stdout.close()
print("into nothing")
