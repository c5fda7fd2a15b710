"""Counts of a step from its layer graph: parameters, FLOPs, bytes, bounds, expressions."""
