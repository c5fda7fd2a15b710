# Raises KeyboardInterrupt by itself.
raise KeyboardInterrupt
