"""The sampler: its process, its care, and what it costs the training."""
