"""Comparisons on the terminal, as Markdown and as a page; draws, never computes."""
