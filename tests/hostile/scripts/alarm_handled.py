# Sets an alarm with a handler of its own.
import signal
import time

signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.2)
time.sleep(0.6)
print("after")
