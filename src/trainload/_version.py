"""The product's version, alone in its file so that building needs to import nothing else."""

__version__ = "0.1.0"
