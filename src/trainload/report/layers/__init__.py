"""Where each step goes, drawn: terminal, page, CSV, JSON and trace."""
