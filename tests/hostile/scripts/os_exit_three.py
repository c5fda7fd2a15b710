# Ends by os._exit(3).
import os

os._exit(3)
