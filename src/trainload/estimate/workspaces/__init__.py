"""Memory that CUDA operations take beside their results, by kind of operation."""
