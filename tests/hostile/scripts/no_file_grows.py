# Allows no file to grow beyond 64 KiB, prints more than that and writes more than that.
import resource

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
for number in range(3000):
    print("a line of some forty characters, number", number)
try:
    with open("own.bin", "wb") as file:
        file.write(b"x" * (1 << 17))
except OSError as error:
    print(error.strerror)
