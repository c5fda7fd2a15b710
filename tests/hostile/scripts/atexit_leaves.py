# Ends with another status when Python ends.
import atexit
import os

atexit.register(os._exit, 4)
