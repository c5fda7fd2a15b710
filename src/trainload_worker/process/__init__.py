"""The process that trains: its events file, signals and ending; starting several of them."""
