# Allows itself little more memory, and asks for more than that.
import resource

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
bytearray(2 << 30)
