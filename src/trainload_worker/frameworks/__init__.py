"""One folder a framework, with the same file names in each; `offer` says what it can do."""
