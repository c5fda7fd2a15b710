"""What a machine reaches at best: memory, caches, pages, drives; a small program for each figure.

Standard library and, for what C alone can time, the system's compiler; needs no framework. Those
that need one stand in `frameworks/torch/limits`.
"""
