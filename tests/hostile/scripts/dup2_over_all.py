# Puts its own file under every number.
import os
import time

own = os.open("own.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(3, 64):
    if number != own:
        os.dup2(own, number)
os.write(own, b"mine\n")
time.sleep(0.7)
os.write(own, b"still mine\n")
