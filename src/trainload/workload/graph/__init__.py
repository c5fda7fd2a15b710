"""The layer graph: layers, their kinds, and how a graph is written."""
