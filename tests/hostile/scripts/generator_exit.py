# Raises GeneratorExit at the top.
raise GeneratorExit("odd")
