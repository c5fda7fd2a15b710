"""Counts of a step as text."""
