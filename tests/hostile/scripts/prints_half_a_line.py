# Ends in the middle of a line.
import sys

sys.stdout.write("no end of line")
