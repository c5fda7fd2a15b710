# Takes all of the processor time that it allows itself.
import resource
import time

resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1,) * 2)
while True:
    pass
