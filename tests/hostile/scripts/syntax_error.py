# Is no Python.
def (:
