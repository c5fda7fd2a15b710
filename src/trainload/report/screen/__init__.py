"""The first screen of a run: what it cost, where a step goes, what to do next, in 24 lines."""
