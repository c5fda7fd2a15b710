# Allows itself no more descriptors than it has.
import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
try:
    open("own.txt", "w")
except OSError as error:
    print(error.strerror)
