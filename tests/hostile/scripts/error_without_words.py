# Fails with an error that cannot be shown.
class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


raise Odd
