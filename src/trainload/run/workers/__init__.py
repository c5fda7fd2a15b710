"""Child processes of a run: started, stopped, and their ends judged."""
