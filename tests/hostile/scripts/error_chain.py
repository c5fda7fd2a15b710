# Fails because of another failure.
try:
    1 / 0
except ZeroDivisionError as error:
    raise RuntimeError("while dividing") from error
