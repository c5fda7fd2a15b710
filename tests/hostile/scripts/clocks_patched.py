# Puts clocks of its own in the place of Python's.
import time

time.monotonic = time.perf_counter = time.time = time.process_time = lambda: "noon"
time.sleep = lambda _: None
print("done")
