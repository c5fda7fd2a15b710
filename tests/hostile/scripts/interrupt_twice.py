# Takes two Ctrl-C one after the other, and ends by the second.
import os
import signal
import time

for _ in range(2):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    except KeyboardInterrupt:
        print("not yet")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
