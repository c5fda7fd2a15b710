# Fails with an error that is no Exception.
class Ended(BaseException):
    pass


raise Ended("by my own kind")
