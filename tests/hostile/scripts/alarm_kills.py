# Sets an alarm and lets it kill.
import signal
import time

signal.setitimer(signal.ITIMER_REAL, 0.3)
time.sleep(5)
print("never")
