# Puts an object without flush in the place of standard output.
import sys


class Sink:
    def write(self, text):
        return len(text)


sys.stdout = Sink()
print("swallowed")
