# Starts processes by multiprocessing's fork.
import multiprocessing


def double(number):
    return 2 * number


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(double, range(5)))
