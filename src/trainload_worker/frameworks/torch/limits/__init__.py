"""What trainings and torch's kernels reach on this machine: a small program for each figure."""
