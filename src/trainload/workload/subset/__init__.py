"""Balanced subsets of image folders: scanned, drawn, written, summed up."""
