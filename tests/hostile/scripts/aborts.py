# Aborts.
import os

os.abort()
