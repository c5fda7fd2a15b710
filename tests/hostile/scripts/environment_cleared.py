# Forgets its environment.
import os

os.environ.clear()
os.umask(0o777)
print(len(os.environ))
