# Closes descriptors 1 and 2 behind Python's back.
import os

os.close(1)
os.close(2)
