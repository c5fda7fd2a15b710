# Leaves its work to a child and ends before it.
import os
import time

if os.fork():
    os._exit(0)
time.sleep(0.2)
