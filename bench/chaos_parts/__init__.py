"""What `make chaos` tries: one module a part, each with `run(minutes, seed, count) -> Tally`."""
