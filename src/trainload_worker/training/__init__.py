"""The training of a layer graph, the same in every framework: loop, rows, scores, checkpoints."""
