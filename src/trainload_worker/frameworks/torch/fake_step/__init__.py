"""A real training step of torch on tensors without numbers; README.md beside this says why."""
