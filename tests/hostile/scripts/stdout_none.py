# Has no standard output any more.
import sys

print("before")
sys.stdout = None
print("into nothing")
