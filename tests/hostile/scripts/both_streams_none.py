# Has no streams any more and ends well.
import sys

sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
