"""Data sets as plain buffers: generated, or read from tables, arrays and images; no framework."""
