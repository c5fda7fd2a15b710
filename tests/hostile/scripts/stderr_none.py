# Has no standard error any more and fails.
import sys

sys.stderr = None
raise ValueError("nobody will read this")
