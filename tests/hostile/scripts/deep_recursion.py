# Recurses without end.
def again(number):
    return again(number + 1)


again(0)
