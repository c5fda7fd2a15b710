# Fails with a name that is not UTF-8 in its message.
raise ValueError("caf\udce9.png")
