# Fails with three megabytes of words.
raise ValueError("x" * 3_000_000)
