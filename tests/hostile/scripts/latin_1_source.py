# -*- coding: latin-1 -*- is what it says it is written in.
print(ascii("é"))
