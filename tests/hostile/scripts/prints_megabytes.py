# Prints twenty megabytes.
for number in range(20):
    print(str(number % 10) * (1 << 20))
