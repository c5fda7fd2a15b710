# Fails with several errors at once.
raise ExceptionGroup("both", [ValueError("one"), TypeError("two")])
