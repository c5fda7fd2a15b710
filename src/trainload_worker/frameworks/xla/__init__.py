"""What frameworks share that compile with XLA: reading its programs and its profiles."""
