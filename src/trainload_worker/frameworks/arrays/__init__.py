"""What frameworks share that bring NumPy: rows, scores, checkpointed tensors, pooling windows."""
