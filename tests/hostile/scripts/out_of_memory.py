# Says that memory is over.
raise MemoryError("no more")
