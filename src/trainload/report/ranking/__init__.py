"""Rankings as tables of text, for the terminal and as Markdown; draws, never computes."""
