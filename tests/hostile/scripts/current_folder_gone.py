# Removes the folder that it stands in.
import os
import tempfile

folder = tempfile.mkdtemp()
os.chdir(folder)
os.rmdir(folder)
print("nowhere")
