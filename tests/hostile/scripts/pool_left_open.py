# A pool of threads that nobody shuts down: Python ends it at exit.
from concurrent.futures import ThreadPoolExecutor

pool = ThreadPoolExecutor(2)
print(sum(pool.map(abs, range(-5, 5))), flush=True)
