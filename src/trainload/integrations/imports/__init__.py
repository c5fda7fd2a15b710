"""Files of other people's tools as run directories: one file a kind, nothing guessed.

Reads files that others wrote, in bounded memory, and writes runs through the record.
"""
