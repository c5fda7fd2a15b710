"""The process that trains: its events file, its signals, its ending, and starting several of them."""
