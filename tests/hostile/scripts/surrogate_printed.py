# Prints bytes that are no UTF-8, and controls.
import sys

sys.stdout.buffer.write(b"caf\xe9 \x00\x1b[31mred\x1b[0m\r\x07over\n")
sys.stdout.flush()
