"""One or several runs, drawn: terminal and page."""
