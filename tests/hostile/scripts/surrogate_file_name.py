# Fails at a file whose name is Latin-1.
import os

open(os.fsdecode(b"caf\xe9.png"))
