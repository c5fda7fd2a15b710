# Reads what is not there.
import sys

print(repr(sys.stdin.read()))
