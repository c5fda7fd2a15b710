# Leaves its work to a thread and falls off its end.
import pickle
import threading
import time


class Model:
    pass


def work():
    time.sleep(0.3)
    print(len(pickle.loads(pickle.dumps([Model(), Model()]))))


threading.Thread(target=work).start()
